/** The form for an override of a key, or of a whole limit. */

import { call, maybe, overridePath } from "./api.js";
import { notify, open } from "./dialog.js";
import { el, field, select } from "./dom.js";
import { overrideText, plain, shown, span } from "./text.js";

/** Returns what an override is of, as words. */
export const target = (limit, key) => (key === null ? ["every key of ", shown(limit)] : ["the key ", shown(key, 80), " of ", shown(limit)]);

/** Returns the body that sets an override again, for the rest of its time. */
function again(old) {
  const to = old.allow ? { allow: true } : old.block ? { block: true } : old.times !== undefined ? { times: old.times } : { policies: old.policies };
  return { ...to, ...(old.ends_in_ms === null ? {} : { for: `${Math.max(1, old.ends_in_ms)}ms` }), ...(old.note ? { note: old.note } : {}) };
}

/** Returns the override now, or null. */
export const current = (limit, key) => maybe(call(overridePath(limit, key)));

/** Sets an override (or ends it, with null), and offers to undo that. */
export async function change(limit, key, body, done = () => {}) {
  const path = overridePath(limit, key);
  const old = await current(limit, key);
  if (body) await call(path, body, "PUT");
  else await call(path, undefined, "DELETE");
  done();
  const words = body ? ["Override set for ", ...target(limit, key), `: ${plain(overrideText(body))}.`] : ["Override ended for ", ...target(limit, key), "."];
  notify(words, async () => {
    if (old) await call(path, again(old), "PUT");
    else await call(path, undefined, "DELETE");
    done();
    return ["Undone: ", ...target(limit, key), ` has ${old ? `the earlier override, ${plain(overrideText(old))}` : "no override"} again.`];
  });
}

/**
 * Asks for an override, and sets it.
 * @param {string} limit
 * @param {string|null} key null for the whole limit
 * @param {string[]} policies those in force, to begin with
 * @param {() => void} done
 */
export function askOverride(limit, key, policies, done) {
  const kind = select([["times", "multiply the file's numbers"], ["policies", "other policies"], ["allow", "allow all, uncounted"], ["block", "block all"]]);
  const factor = el("input", { value: "2", inputmode: "decimal", class: "short" });
  const text = el("textarea", { rows: Math.max(2, policies.length), spellcheck: "false" });
  text.value = policies.join("\n");
  const lasts = el("input", { value: "2h", class: "short", autocomplete: "off" });
  const note = el("input", { autocomplete: "off", maxlength: 1000 });
  const sentence = el("p", { class: "sentence" });
  const factorField = field("Factor", factor, "above 0, at most six decimals");
  const textField = field("Policies, one a line", text, "the same names, algorithms and windows in the same order");
  const body = () => {
    const to = { times: { times: Number(factor.value) }, policies: { policies: text.value.split("\n").map(line => line.trim()).filter(line => line) },
      allow: { allow: true }, block: { block: true } }[kind.value];
    return { ...to, ...(lasts.value.trim() ? { for: lasts.value.trim() } : {}), ...(note.value ? { note: note.value } : {}) };
  };
  const say = () => {
    factorField.hidden = kind.value !== "times";
    textField.hidden = kind.value !== "policies";
    const end = lasts.value.trim() ? `for ${plain(lasts.value.trim())}` : "until it is ended";
    sentence.replaceChildren("From now on, ", ...target(limit, key), `: ${plain(overrideText(body()))}, ${end}, in every process with this store.`);
  };
  say();
  return open({
    title: key === null ? "Override the limit" : "Override the key",
    danger: true,
    verb: "Set the override",
    content: [el("div", { oninput: say }, field("Effect", kind), factorField, textField,
      field("Ends after", lasts, "such as 30min, 2h or 3d; empty: never"), field("Note for colleagues", note)), sentence],
    submit: () => change(limit, key, body(), done),
  });
}

/** Asks whether an override should end. */
export function askClear(limit, key, done) {
  return open({
    title: "End the override", danger: true, verb: "End it",
    content: [el("p", { class: "sentence" }, "The override of ", ...target(limit, key), " ends now; the configuration's numbers count again.")],
    submit: () => change(limit, key, null, done),
  });
}

/** Returns an override as a sentence. */
export function overrideSentence(of) {
  const end = of.ends_in_ms === null ? "no end" : `ends in ${span(of.ends_in_ms)}`;
  const more = [end, of.by && `by ${plain(of.by)}`, of.note && `“${plain(of.note)}”`, of.problem && `not in force: ${plain(of.problem)}`, !of.durable && "ends with the process"];
  return `${plain(overrideText(of))} (${more.filter(part => part).join(", ")})`;
}
