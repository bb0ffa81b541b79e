/** The details of an opened limit. */

import { call, limitPath, maybe, withQuery } from "./api.js";
import { button, el, field, table } from "./dom.js";
import { entryOf } from "./entry.js";
import { address, keyAddress, keyLink, lineLink } from "./links.js";
import { askClear, askOverride, overrideSentence } from "./override.js";
import { count, plain, plural, span } from "./text.js";

const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, ...value)];

function topTable(limit, caption, unit, keys) {
  const rows = keys.map(entry => el("tr", {}, el("td", {}, keyLink(limit, entry, 60)), el("td", { class: "number" }, count(entry.count)),
    el("td", { class: "number soft" }, entry.at_most_over ? `at most ${count(entry.at_most_over)} over` : "exact")));
  const list = table(`${caption} of ${plain(limit)}`, ["key", [unit, "number"], ["", "number"]], el("tbody", {}, ...rows));
  return el("div", {}, el("h4", {}, caption), keys.length ? list : el("p", { class: "soft" }, "none"));
}

/** Returns a list of the overrides of keys, which grows by a page at a time. */
function overrideList(name, first) {
  const list = el("ul");
  let next = null;
  const more = button("More overrides", () => read(next).then(add, error => { more.textContent = `${error.message} Try again`; }));
  function add(page) {
    list.append(...page.overrides.map(of => el("li", {}, keyLink(name, of, 60), `: ${overrideSentence(of)}`)));
    next = page.next;
    more.textContent = "More overrides";
    more.hidden = !next;
  }
  const read = after => call(withQuery(limitPath(name, "overrides"), { count: 20, after }));
  add(first);
  return [list, more];
}

/** Shows more about a limit. `policies` keeps the text of its policies. */
export function limitDetails(name) {
  let policies = [];
  const content = el("div", { class: "columns" }, el("p", { class: "soft" }, "loading…"));
  const key = el("input", { autocomplete: "off", required: true });
  const opener = el("form", { class: "filters", onsubmit: event => {
    event.preventDefault();
    location.hash = keyAddress(name, key.value);
  } }, field("Key", key), el("button", {}, "Open the key"));
  const actions = el("div", { class: "buttons" },
    button("Override the limit…", () => askOverride(name, null, policies, load)),
    el("a", { href: address("what-if", { limit: name }) }, "What if…"),
    el("a", { href: address("decisions", { limit: name }) }, "Its decisions"),
    button("Refresh", () => load()));
  const node = el("div", { class: "limit-details" }, actions, opener, content);

  async function load() {
    const [entry, top, overrides, whole, bans] = await Promise.all([
      maybe(entryOf(name)), maybe(call(withQuery(limitPath(name, "top"), { count: 10 }))), maybe(call(withQuery(limitPath(name, "overrides"), { count: 20 }))),
      maybe(call(limitPath(name, "override"))), maybe(call(withQuery("v1/bans", { limit: name, count: 100 }))),
    ]);
    if (!node.isConnected) return;
    const facts = el("dl", { class: "facts" },
      ...fact("Policies", el("div", { class: "policies" }, ...policies.map(policy => el("code", {}, plain(policy))))),
      ...(entry ? [
        ...fact("Key", el("code", {}, plain(entry.key)), `; a request without it: ${entry.missing_key}`),
        ...(entry.line ? fact("Source", lineLink(entry.file, entry.line)) : []),
        ...(entry.rollout ? fact("Rollout", entry.rollout.replace("_", " ")) : []),
        ...fact("If the store fails", `${entry.on_store_failure}, after ${span(entry.deadline_ms)}`),
        ...fact("Lists", `${plural(entry.allow, "entry").replace("entrys", "entries")} of allow, ${count(entry.block)} of block; ${plural(entry.overrides, "override")} in the file`),
      ] : []),
      ...fact("Override of all keys", whole ? overrideSentence(whole) : "none", " ", whole ? button("End it…", () => askClear(name, null, load)) : null),
      ...fact("Overrides of keys", ...(overrides?.overrides.length ? overrideList(name, overrides) : ["none"])),
      ...(bans ? fact("Bans", bans.bans.length ? el("ul", {}, ...bans.bans.map(of => el("li", {}, keyLink(name, of, 60), ` for ${span(of.ends_in_ms)}`)), bans.next ? el("li", {}, "and maybe more") : "") : "none") : []));
    const tops = top && el("div", { class: "tops" }, topTable(name, "Most denied keys", "denials", top.by_denials), topTable(name, "Most used keys", "units", top.by_use),
      el("p", { class: "soft" }, `Counts of the last ${span(top.covers_ms)}.`));
    content.replaceChildren(facts, tops ?? el("p", { class: "soft" }, "No list of keys."));
  }
  setTimeout(load);
  return {
    node,
    policies(list) {
      const differs = list.join("\n") !== policies.join("\n");
      const isFirst = policies.length === 0;
      policies = list;
      if (differs && !isFirst) load();
    },
  };
}
