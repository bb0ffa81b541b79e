/** The configuration in force, its history, the overrides' audit, and the fleet. */

import { call, withQuery } from "./api.js";
import { button, el, setText, table } from "./dom.js";
import { address, keyLink, limitLink } from "./links.js";
import { fleetPart } from "./fleet.js";
import { ago, keyName, overrideText, plain, plural, span } from "./text.js";

/** A file may have many thousand lines: the page shows so many at a time. */
const LINES = 1000;

/** The file, with a number before each line. */
function filePart() {
  const about = el("p", { class: "soft" });
  const body = el("div", { class: "file", role: "region", tabindex: "0", "aria-label": "The file in force" });
  const earlier = button("Earlier lines", () => draw(first - LINES));
  const later = button("Later lines", () => draw(first + LINES));
  const node = el("section", { "aria-labelledby": "file-title" }, el("h2", { id: "file-title" }, "File in force"), about, el("p", { class: "buttons" }, earlier, later), body);
  let lines = [];
  let first = 0;
  let marked = 0;
  let known = null;

  function draw(from) {
    first = Math.max(0, from);
    const part = lines.slice(first, first + LINES);
    body.replaceChildren(...part.map((line, index) => {
      const number = first + index + 1;
      const row = el("div", { class: number === marked ? "line marked" : "line", id: `line-${number}` },
        el("a", { class: "line-number", href: address("config", { line: number }), "aria-label": `Line ${number}` }, number), el("code", {}, line === "" ? "" : plain(line).replace(/⟨U\+0020⟩/g, " ")));
      if (number === marked) row.setAttribute("aria-current", "true");
      return row;
    }));
    earlier.hidden = first === 0;
    later.hidden = first + LINES >= lines.length;
  }
  return {
    node,
    update(config) {
      setText(about, config.file ? `${plain(config.file)}, configuration ${config.generation}, digest ${config.digest ?? "–"}, in force for ${span(config.age_ms)}` : "The service has no configuration file.");
      if (config.text === known) return;
      known = config.text;
      lines = (config.text ?? "").split("\n");
      if (lines.at(-1) === "") lines.pop();
      draw(marked ? Math.floor((marked - 1) / LINES) * LINES : 0);
    },
    mark(line) {
      marked = line;
      if (lines.length) draw(Math.floor((line - 1) / LINES) * LINES);
      const row = document.getElementById(`line-${line}`);
      row?.scrollIntoView({ block: "center" });
      row?.querySelector("a").focus({ preventScroll: true });
    },
  };
}

function reloadItem(reload) {
  const changes = reload.changes ?? [];
  return el("li", { class: reload.outcome === "refused" ? "error" : "" },
    el("b", {}, reload.outcome), ` ${ago(reload.age_ms)}`,
    reload.message ? el("pre", {}, reload.message.split("\n").map(line => line.replace(/[^ ]+/g, plain)).join("\n")) : null,
    changes.length ? el("details", { open: changes.length <= 5 }, el("summary", {}, plural(changes.length, "change")), el("ul", {}, ...changes.map(change => el("li", {}, plain(change))))) : null);
}

const auditRow = entry => el("tr", {},
  el("td", { class: "soft number" }, entry.at.replace("T", " ").replace(/\.\d+Z$/, " UTC")), el("td", {}, plain(entry.by ?? "no credentials")), el("td", {}, limitLink(entry.limit)),
  el("td", {}, entry.key === null && !entry.key_bytes ? "all keys" : entry.key === null ? keyName({ key_bytes: entry.key_bytes }) : keyLink(entry.limit, entry, 40)),
  el("td", {}, `${plain(overrideText(entry.from))} → ${plain(overrideText(entry.to))}${entry.lasts_ms === null ? "" : ` for ${span(entry.lasts_ms)}`}`),
  el("td", { class: "mid" }, entry.note ? plain(entry.note) : ""));

/** The changes of overrides, the newest first, a page at a time. */
function auditPart() {
  const body = el("tbody");
  const none = el("p", { class: "soft" });
  let next = null;
  const more = button("Older changes", () => load(next));
  const list = table("Changes of overrides", [["when", "number"], "who", "limit", "key", "change", ["note", "mid"]], body);
  const node = el("section", { "aria-labelledby": "audit-title" }, el("h2", { id: "audit-title" }, "Overrides: who changed what"),
    el("p", {}, el("a", { href: address("", { show: "overridden" }) }, "Limits with overrides")), none, list, el("p", { class: "buttons" }, more, button("Newest changes", () => load(null))));
  async function load(after) {
    try {
      const page = await call(withQuery("v1/audit", { count: 50, after }));
      next = page.next;
      body.replaceChildren(...page.audit.map(auditRow));
      setText(none, page.audit.length ? "" : "No override was changed.");
      list.hidden = page.audit.length === 0;
      more.hidden = next === null;
    } catch (error) {
      setText(none, error.message);
      list.hidden = true;
      more.hidden = true;
    }
  }
  return { node, load };
}

export function configView() {
  const file = filePart();
  const audit = auditPart();
  const fleet = fleetPart();
  const problem = el("p", { class: "problem", role: "alert" });
  const reloads = el("ol", { class: "reloads" });
  const history = el("section", { "aria-labelledby": "reloads-title" }, el("h2", { id: "reloads-title" }, "Reloads"), reloads);
  const node = el("section", { class: "view", "aria-labelledby": "config-title" },
    el("h1", { id: "config-title" }, "Configuration"), problem, fleet.node, history, file.node, audit.node);
  let ticks = 0;
  async function load() {
    try {
      const config = await call("v1/config");
      file.update(config);
      reloads.replaceChildren(...config.reloads.map(reloadItem));
      history.hidden = config.reloads.length === 0;
      problem.textContent = "";
    } catch (error) {
      problem.textContent = error.message;
      file.node.hidden = error.status === 403;
    }
  }
  return {
    node,
    async show(parameters) {
      ticks = 0;
      fleet.load();
      audit.load(null);
      await load();
      if (parameters.line) file.mark(Number(parameters.line));
    },
    tick() {
      ticks += 1;
      // A reader of the list keeps its place: the audit stays as it is until asked for.
      if (ticks % 5 === 0) fleet.load();
      if (ticks % 10 === 0) load();
    },
  };
}
