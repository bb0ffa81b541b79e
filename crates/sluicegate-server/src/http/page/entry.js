/** The entry of a limit in the configuration. */

import { call, withQuery } from "./api.js";

/** Returns the entry of a limit, or null. */
export const entryOf = async limit => (await call(withQuery("v1/limits", { limit }))).limits[0] ?? null;

/** Returns the texts of a limit's policies. */
export const specsOf = entry => (entry?.policies ?? []).map(policy => (typeof policy === "string" ? policy : policy.spec));
