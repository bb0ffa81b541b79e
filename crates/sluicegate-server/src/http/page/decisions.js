/** Decisions: the rows of one request together, and repeats counted. */

import { el } from "./dom.js";
import { keyLink, limitLink } from "./links.js";
import { count, keyId, plain, span } from "./text.js";

/**
 * One decision, with a row for each of its limits.
 * @typedef {{id: string, number: number, at: number, parts: any[]}} Decided
 */

/** How many decisions the page keeps. */
export const KEPT = 400;

/** The newest decisions, the newest first. It has a bound. */
export class Decisions {
  constructor() {
    /** @type {Decided[]} */
    this.list = [];
    this.newest = 0;
  }

  clear() {
    this.list = [];
    this.newest = 0;
  }

  /**
   * Adds rows in any order, and returns the number of new decisions.
   * @param {any[]} rows as `/v1/recent` has them
   */
  add(rows) {
    const fresh = rows.filter(row => row.number > this.newest).sort((a, b) => a.number - b.number);
    let added = 0;
    for (const row of fresh) {
      this.newest = row.number;
      const id = idOf(row);
      const last = this.list[0];
      // The rows of a decision are numbered one after the other.
      if (row.together && last?.id === id && !last.parts.some(part => part.limit === row.limit)) {
        last.parts.push(row);
        continue;
      }
      this.list.unshift({ id, number: row.number, at: performance.now() - row.age_ms, parts: [row] });
      added += 1;
    }
    this.list.length = Math.min(this.list.length, KEPT);
    return added;
  }
}

const idOf = row => (row.together ? `${row.time} ${[row.limit, ...row.together].sort().join("\n")}` : `${row.number}`);

/** Returns a text that is the same for repeats of a decision. */
const kindOf = ({ parts }) => JSON.stringify([
  parts.map(part => [part.limit, keyId(part)]), parts[0].allowed, parts[0].binding, parts[0].binding_limit, parts[0].code, parts[0].source, parts[0].client,
  parts[0].op, parts.some(part => part.shadow_denied),
]);

/**
 * Counts repeats. Each group has its newest decision.
 * @param {Decided[]} list the newest first
 * @returns {{id: string, count: number, last: Decided}[]}
 */
export function grouped(list) {
  const groups = new Map();
  for (const decided of list) {
    const id = kindOf(decided);
    const group = groups.get(id);
    if (group) group.count += 1;
    else groups.set(id, { id, count: 1, last: decided });
  }
  return [...groups.values()];
}

/** Returns what refused a request, as a phrase; empty if nothing did. */
export function refusal(row) {
  const parts = [row.binding_limit, row.binding, row.code].filter(part => part).map(plain);
  if (!row.allowed) return parts.length ? parts.join(": ") : row.source === "bypass" ? "block list" : row.source;
  return row.shadow_denied ? "shadow" : "";
}

/** Returns the outcome of a request as a phrase. */
export function outcome(row) {
  const word = row.allowed ? (row.shadow_denied ? "allowed (a shadow denies)" : "allowed") : "denied";
  return row.source === "store" ? word : `${word} by ${row.source}`;
}

/** Returns when a denied request may be tried again, as a phrase. */
export function retry(row) {
  if (row.allowed) return "";
  if (row.retry_after_ms !== null) return span(row.retry_after_ms);
  return row.source === "fallback" ? "unknown" : "never";
}

/** Fills an element with the limits of a decision, each with its own key. */
export function showParts(node, parts, most = 40) {
  node.replaceChildren(...parts.map(part => el("div", { class: "part" }, limitLink(part.limit), " ", keyLink(part.limit, part, most))));
  const known = new Set(parts.map(part => part.limit));
  const missing = (parts[0].together ?? []).filter(limit => !known.has(limit));
  if (missing.length) node.append(el("div", { class: "soft" }, `with ${missing.map(plain).join(", ")}`));
}

/** Returns the number of repeats, as a phrase. */
export const times = number => (number > 1 ? `${count(number)}×` : "");
