/** Calls of the service. All addresses are relative, so the page works below any path of a proxy. */

import { askForToken } from "./dialog.js";

const TOKEN = "sluicegate-token";

/** An answer that is an error, with its code. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

/** Forgets the token, and loads the page again without what it has shown. */
export function forgetToken() {
  sessionStorage.removeItem(TOKEN);
  location.reload();
}

/** @type {Promise<string|null>|null} */
let asking = null;
/** Whether the operator closed the question: only an explicit act asks again. */
let declined = false;

/** Allows the page to ask for a token again. */
export function askAgain() {
  declined = false;
}

/**
 * Sends a request with the token. A 401 asks for one, once for all requests that wait.
 * @param {string} path relative to the page
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
export async function send(path, options = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { ...options.headers, ...(token === null ? {} : { Authorization: `Bearer ${token}` }) };
    const response = await fetch(path, { ...options, headers });
    if (response.status !== 401 || declined) return response;
    // Another request may have asked meanwhile.
    if (sessionStorage.getItem(TOKEN) !== token) continue;
    const message = (await response.clone().json().catch(() => null))?.error?.message;
    asking ??= askForToken(token === null ? null : message ?? "The token is wrong.").finally(() => { asking = null; });
    const given = await asking;
    if (given === null) {
      declined = true;
      return response;
    }
    // A header field has only these characters.
    sessionStorage.setItem(TOKEN, given.replace(/[^\x21-\x7e]/g, ""));
    document.getElementById("forget").hidden = false;
  }
}

/** Returns the error of a response. */
export async function errorOf(response) {
  const error = (await response.json().catch(() => null))?.error;
  return new ApiError(response.status, error?.code ?? "unknown", error?.message ?? `The service answered ${response.status}.`);
}

/**
 * Makes a call, and returns its JSON: null for 204.
 * @param {string} path
 * @param {object} [body]
 * @param {string} [method]
 */
export async function call(path, body, method = body === undefined ? "GET" : "POST") {
  const options = body === undefined ? { method } : { method, body: JSON.stringify(body) };
  const response = await send(path, options);
  if (response.status === 204) return null;
  // A denial is an answer, and a blocked key's is 403 with a decision.
  if (!response.ok) {
    const copy = await response.clone().json().catch(() => null);
    if (copy && "allowed" in copy) return copy;
    throw await errorOf(response);
  }
  return response.json();
}

/** Makes a call that only adds to what is shown: null if it fails. */
export const maybe = promise => promise.catch(() => null);

/** Returns a segment of a path. A browser removes `.` and `..`, whatever their spelling. */
function segment(text) {
  if (text === "." || text === ".." || text === "") {
    throw new ApiError(0, "unnameable", "A browser can't name this key in a path: use `sluicegate override` on the command line.");
  }
  return encodeURIComponent(text.toWellFormed());
}

/** Returns the path of a limit's override, or of one of its keys. */
export const overridePath = (limit, key) =>
  `v1/limits/${segment(limit)}/${key === undefined || key === null ? "override" : `overrides/${segment(key)}`}`;

/** Returns the path of a list of a limit. */
export const limitPath = (limit, list) => `v1/limits/${segment(limit)}/${list}`;

/** Returns a path with a query of the parameters that have a value. */
export function withQuery(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
