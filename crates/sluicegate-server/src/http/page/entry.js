/** The entry of a limit in the configuration. */

import { call, withQuery } from "./api.js";

/** Returns the entry of a limit, or null. The list of all has no search by name, so it is read page by page. */
export async function entryOf(name) {
  let after = null;
  do {
    const { limits, next } = await call(withQuery("v1/limits", { count: 1000, after }));
    const found = limits.find(limit => limit.name === name);
    if (found) return found;
    after = next;
  } while (after);
  return null;
}

/** Returns the texts of a limit's policies. */
export const specsOf = entry => (entry?.policies ?? []).map(policy => (typeof policy === "string" ? policy : policy.spec));
