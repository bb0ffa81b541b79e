/** What another limit, or another file, would have decided: `/v1/simulate` over the recorded decisions. */

import { call, maybe } from "./api.js";
import { timeline } from "./chart.js";
import { notify, open } from "./dialog.js";
import { button, el, field, select, table } from "./dom.js";
import { entryOf, specsOf } from "./entry.js";
import { keyLink, limitLink } from "./links.js";
import { change, target } from "./override.js";
import { ago, count, percent, plain, plural, span } from "./text.js";

/** Returns a text as YAML: JSON strings are YAML. */
const quoted = text => JSON.stringify(text);

/** Returns the limit with these policies as a part of a config file. */
const yamlOf = (limit, policies) => `limits:\n  ${quoted(limit)}:\n    policies:\n${policies.map(policy => `      - ${quoted(policy)}\n`).join("")}`;

function limitReport(of, isEstimate) {
  const about = isEstimate ? "about " : "";
  const rows = of.keys.map(each => el("tr", {}, el("td", {}, keyLink(of.limit, each, 48)), el("td", { class: "number" }, count(each.requests)),
    el("td", { class: "number" }, count(each.denied)), el("td", { class: `number ${each.newly_denied ? "bad" : ""}` }, count(each.newly_denied)),
    el("td", { class: "soft mid" }, each.denied ? `${ago(each.first_denied_ms_ago)} to ${ago(each.last_denied_ms_ago)}` : "")));
  return el("section", { class: "report" },
    el("h3", {}, limitLink(of.limit)),
    el("p", {}, `Of ${about}${plural(of.requests, "request")}, ${about}${count(of.denied)} (${percent(of.denied, of.requests)}) would be denied: `,
      el("b", { class: of.newly_denied ? "bad" : "" }, `${about}${count(of.newly_denied)} newly`), `, while ${about}${count(of.newly_allowed)} more would be allowed.`),
    timeline(of.timeline),
    el("p", { class: "soft" }, `Left bars: denied then. Right bars: would be denied. A step is ${span(of.timeline.step_ms)}.`),
    rows.length ? table(`Keys of ${plain(of.limit)}`, ["key", ["requests", "number"], ["denied", "number"], ["newly denied", "number"], ["denied from, to", "mid"]], el("tbody", {}, ...rows)) : null);
}

/** Limits that a report shows, and limits whose policies it names as not simulated. */
const SECTIONS = 50;
const UNPLAYED = 10;

function report(answer) {
  const from = answer.from === "log" ? "the decision log" : "the recorder";
  const notes = [
    `It covers the last ${span(answer.covers_ms)}, ${plural(answer.decisions, "decision")} of ${from}.`,
    answer.left_out ? `${count(answer.left_out)} decisions were left out of the record, so real numbers are higher.` : "",
    answer.estimated ? "The record is a sample: the numbers are estimates." : "",
  ].filter(note => note);
  const limits = answer.limits.toSorted((a, b) => b.newly_denied - a.newly_denied);
  const found = limits.filter(of => of.requests > 0);
  const unplayed = limits.filter(of => of.unplayed.length);
  return [
    el("p", { class: answer.estimated || answer.left_out ? "warning" : "" }, notes.join(" ")),
    unplayed.length ? el("p", { class: "warning" }, `Not simulated, because they count requests in flight: ${
      unplayed.slice(0, UNPLAYED).map(of => `${of.unplayed.map(plain).join(", ")} of ${plain(of.limit)}`).join("; ")}${
      unplayed.length > UNPLAYED ? `; and those of ${plural(unplayed.length - UNPLAYED, "more limit")}` : ""}.`) : "",
    ...(found.length ? found.slice(0, SECTIONS).map(of => limitReport(of, answer.estimated)) : [el("p", {}, "No recorded decision of these limits was simulated.")]),
    found.length > SECTIONS ? el("p", {}, `${plural(found.length - SECTIONS, "more limit")} had recorded requests.`) : "",
  ];
}

async function copy(text, fallback) {
  try {
    await navigator.clipboard.writeText(text);
    notify(["The YAML is in the clipboard."]);
  } catch {
    // Only secure origins have a clipboard.
    fallback.hidden = false;
    fallback.value = text;
    fallback.focus();
    fallback.select();
  }
}

export function whatIfView() {
  const kind = select([["limit", "one limit"], ["file", "a whole file"]]);
  const limit = el("input", { autocomplete: "off" });
  const policies = el("textarea", { rows: 3, spellcheck: "false" });
  const config = el("textarea", { rows: 12, spellcheck: "false" });
  const file = el("input", { type: "file", accept: ".yaml,.yml,.json,text/*" });
  const since = select([["5min", "5 min"], ["15min", "15 min"], ["1h", "1 h"], ["6h", "6 h"], ["1d", "1 d"]]);
  since.value = "1h";
  const from = select([["", "best available"], ["recorder", "recorder"], ["log", "decision log"]]);
  const scale = el("input", { type: "checkbox" });
  const problem = el("pre", { class: "problem", role: "alert" });
  const result = el("div", { "aria-live": "polite" });
  const yaml = el("textarea", { rows: 6, readonly: true, hidden: true, "aria-label": "The YAML to copy" });
  const run = el("button", { class: "primary" }, "Simulate");
  const ofLimit = el("div", { class: "stacked" }, field("Limit", limit), field("Policies, one a line", policies));
  const ofFile = el("div", { class: "stacked" }, field("File", file), field("Text of the file", config));
  const lines = () => policies.value.split("\n").map(line => line.trim()).filter(line => line);
  const apply = button("Apply as override", () => applied());
  const copying = button("Copy the YAML", () => copy(kind.value === "limit" ? yamlOf(limit.value, lines()) : config.value, yaml));
  const after = el("div", { class: "buttons", hidden: true }, apply, copying);
  const choose = () => {
    ofLimit.hidden = kind.value !== "limit";
    ofFile.hidden = kind.value !== "file";
    after.hidden = true;
  };
  let turn = 0;

  async function applied() {
    problem.textContent = "";
    try {
      await confirmApply();
    } catch (error) {
      problem.textContent = error.message;
    }
  }
  async function confirmApply() {
    const lasts = el("input", { value: "2h", class: "short", autocomplete: "off" });
    const key = el("input", { autocomplete: "off" });
    const name = limit.value;
    const wanted = lines();
    const sentence = el("p", { class: "sentence" });
    const say = () => sentence.replaceChildren("From now on, ", ...target(name, key.value || null), ` has ${wanted.map(plain).join(", ")}, in every process with this store.`);
    say();
    await open({
      title: "Apply as override", verb: "Set the override", danger: true,
      content: [field("Ends after", lasts, "empty: never"), el("div", { oninput: say }, field("Key", key, "empty: all keys")), sentence],
      submit: () => change(name, key.value || null, { policies: wanted, note: "tried in a simulation", ...(lasts.value.trim() ? { for: lasts.value.trim() } : {}) }),
    });
  }
  async function submit(event) {
    event.preventDefault();
    turn += 1;
    const own = turn;
    problem.textContent = "";
    after.hidden = true;
    yaml.hidden = true;
    result.replaceChildren(el("p", { class: "soft" }, "simulating…"));
    const what = kind.value === "limit" ? { limit: limit.value, policies: lines() } : { config: config.value };
    try {
      const answer = await call("v1/simulate", { ...what, since: since.value, scale: scale.checked, ...(from.value ? { from: from.value } : {}) });
      if (own !== turn) return;
      result.replaceChildren(...report(answer));
      apply.hidden = kind.value !== "limit";
      after.hidden = false;
    } catch (error) {
      if (own !== turn) return;
      result.replaceChildren();
      problem.textContent = error.code === "sampled" ? `${error.message}\nChoose “scale samples” for estimates.` : error.message;
    }
  }
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (chosen) config.value = await chosen.text();
  });
  const form = el("form", { class: "what-if", onsubmit: submit, oninput: choose },
    el("div", { class: "filters" }, field("Change", kind), field("Decisions of the last", since), field("From", from), el("label", { class: "check" }, scale, " scale samples")),
    ofLimit, ofFile, el("p", { class: "buttons" }, run));
  const node = el("section", { class: "view", "aria-labelledby": "what-if-title" }, el("h1", { id: "what-if-title" }, "What if"),
    el("p", { class: "soft" }, "Plays recorded decisions against other numbers. Nothing is charged, and nothing changes."), form, problem, after, yaml, result);
  choose();

  /** Fills in the policies in force. */
  async function begin(name) {
    limit.value = name;
    kind.value = "limit";
    choose();
    const specs = specsOf(await maybe(entryOf(name)));
    policies.value = specs.join("\n");
    policies.rows = Math.max(3, specs.length + 1);
  }
  return {
    node,
    show(parameters) {
      if (parameters.limit !== undefined) begin(parameters.limit);
    },
  };
}
