/** Addresses within the page. They can be sent to a colleague. */

import { withQuery } from "./api.js";
import { el } from "./dom.js";
import { keyName, plain, shown, unnameable } from "./text.js";

/** Returns the address of a view with parameters. */
export const address = (view, parameters = {}) => withQuery(`#/${view}`, parameters);

/** Returns the view and the parameters of an address. */
export function parsed(hash) {
  const [view, query] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view, parameters: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

export const keyAddress = (limit, key) => address("key", { limit }) + `&${new URLSearchParams({ key })}`;

/** Returns a link to a key, or its text if no call can name it. */
export function keyLink(limit, of, most = 32) {
  const why = unnameable(of);
  if (why) return el("span", { title: why }, of.key === undefined || of.key === null ? keyName(of) : shown(of.key, most));
  return el("a", { href: keyAddress(limit, of.key) }, shown(of.key, most));
}

/** Returns a link to a limit among the others. */
export const limitLink = limit => el("a", { href: address("", { limit }) }, plain(limit));

/** Returns a link to a line of the configuration, or its text. */
export function lineLink(file, number) {
  const name = file ? plain(file.split("/").at(-1)) : "";
  if (number === undefined || number === null) return el("span", {}, name);
  return el("a", { href: address("config", { line: number }) }, `${name ? `${name}, ` : ""}line ${number}`);
}
