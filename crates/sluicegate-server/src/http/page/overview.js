/** What is wrong now, the figures of the service, and the keys that are denied. */

import { button, el, fill, setAttribute, setText } from "./dom.js";
import { STEPS, line } from "./chart.js";
import { bytes, count, keyName, micros, percent, plain, plural, rate, span } from "./text.js";
import { KEPT, grouped } from "./decisions.js";
import { address, keyLink, limitLink } from "./links.js";

/** A figure with its line over 15 min. `series` returns the line's numbers from the history. */
const FIGURES = [
  { name: "Requests", series: of => zip(of, (a, d) => (a + d) / 10, "allowed", "denied"), text: number => `${rate(number)}/s`,
    value: now => `${rate(now.rates.allowed + now.rates.denied)}/s`, more: now => (now.rates.errors ? `${rate(now.rates.errors)} errors/s` : "") },
  { name: "Denied", series: of => zip(of, (a, d) => (a + d ? (100 * d) / (a + d) : 0), "allowed", "denied"), text: number => `${rate(number)} %`,
    value: now => percent(now.rates.denied, now.rates.allowed + now.rates.denied),
    more: now => `${rate(now.rates.denied)}/s${now.rates.shadow_denied ? `, ${rate(now.rates.shadow_denied)}/s in shadow` : ""}`,
    bad: now => now.rates.denied > 0 },
  { name: "Decision (p99)", series: of => of.decision_p99_us, text: micros, value: now => micros(now.decision_us?.p99), more: now => (now.decision_us ? `p50 ${micros(now.decision_us.p50)}` : "") },
  { name: "Store call (p99)", series: of => of.store_p99_us, text: micros, value: now => micros(now.store_us?.p99), more: now => (now.store_us ? `p50 ${micros(now.store_us.p50)}` : "") },
  { name: "Store", series: of => zip(of, (up, open) => (up && open ? 0.5 : up), "store_up", "breaker_open"),
    text: number => (number === 1 ? "up" : number ? "breaker open" : "down"), value: now => now.store.state,
    more: now => [now.store.kind, now.breaker && `breaker ${now.breaker.replace("_", "-")}`].filter(part => part).join(", "),
    bad: now => now.store.state === "down" },
  { name: "Keys", series: of => of.keys, text: count, value: now => count(now.store.keys),
    more: now => [now.store.max_keys && `of ${count(now.store.max_keys)}`, now.store.evicted_live && `${count(now.store.evicted_live)} evicted live`].filter(part => part).join(", ") },
  { name: "Memory of keys", series: of => of.bytes, text: bytes, value: now => bytes(now.store.bytes), more: now => (now.store.max_bytes ? `of ${bytes(now.store.max_bytes)}` : "") },
  { name: "Leased units", series: of => of.leased_units, text: count, value: now => count(now.leased_units), more: now => (now.waiting ? plural(now.waiting, "waiter") : "") },
  { name: "Processes", series: of => of.processes, text: count, value: now => count(now.fleet.processes),
    more: now => (now.fleet.configurations > 1 ? plural(now.fleet.configurations, "configuration") : "one configuration"), bad: now => now.fleet.configurations > 1 },
];

/** Returns the steps of two series together: null where one is unknown. */
function zip(series, join, first, second) {
  return series[first].map((number, index) => (number === null ? null : join(number, series[second][index] ?? 0)));
}

const SERIES = ["allowed", "denied", "shadow_denied", "decision_p50_us", "decision_p99_us", "store_p50_us", "store_p99_us", "store_up", "breaker_open", "keys", "bytes",
  "leased_units", "processes"];

/** Adds new steps to the known series, and keeps the last 15 min. */
export function extended(old, event) {
  return Object.fromEntries(SERIES.map(name => {
    const more = event.series[name] ?? [];
    return [name, [...(event.whole ? [] : old?.[name] ?? []), ...more].slice(-STEPS)];
  }));
}

/** The problems whose cause the view of the configuration shows. */
const OF_CONFIG = /^(config-refused|fleet-differs|denies-since-reload:)/;

/** Returns a row of the list of problems. */
function problemRow() {
  const text = el("strong");
  const remedy = el("span");
  const since = el("span", { class: "soft" });
  const detail = el("pre");
  const more = el("details", {}, el("summary", {}, "Details"), detail);
  const where = el("span");
  const node = el("li", {}, el("p", {}, text, " ", remedy, " ", since, " ", where), more);
  return {
    node,
    update(problem) {
      node.className = problem.severity;
      setText(text, plain(problem.text));
      setText(remedy, plain(problem.remedy));
      setText(since, !problem.since_ms ? "" : `for ${span(problem.since_ms)}`);
      more.hidden = !problem.detail;
      // Line breaks and the caret's place matter here.
      setText(detail, (problem.detail ?? "").split("\n").map(line => (line ? line.replace(/[^ ]+/g, plain) : "")).join("\n"));
      if (where.firstChild) return;
      if (problem.limit) where.append(limitLink(problem.limit), " ");
      if (OF_CONFIG.test(problem.id)) where.append(el("a", { href: address("config") }, "Configuration"));
    },
  };
}

/** More problems than these are shown on demand, so that the figures stay in sight. */
const PROBLEMS = 4;

/** The list of problems, which every view begins with. It is announced when a problem comes, not each second. */
export function problemList() {
  const list = el("ul", { class: "problems" });
  const said = el("p", { class: "hidden", "aria-live": "assertive" });
  let isWhole = false;
  let newest = [];
  const all = button("", () => {
    isWhole = !isWhole;
    show();
  }, { class: "plain" });
  const node = el("section", { "aria-label": "Problems", hidden: true }, said, list, all);
  let known = "";
  function show() {
    fill(list, isWhole ? newest : newest.slice(0, PROBLEMS), problem => problem.id, problemRow);
    all.hidden = newest.length <= PROBLEMS;
    setText(all, isWhole ? "Show only the worst" : `Show all ${plural(newest.length, "problem")}`);
  }
  return {
    node,
    update(problems) {
      node.hidden = problems.length === 0;
      newest = problems;
      show();
      const ids = problems.map(problem => problem.id).join("\n");
      if (ids === known) return;
      const fresh = problems.filter(problem => !known.split("\n").includes(problem.id));
      setText(said, fresh.map(problem => `${plain(problem.text)} ${plain(problem.remedy)}`).join(" "));
      known = ids;
    },
  };
}

function figure(of) {
  const value = el("dd", { class: "value" });
  const more = el("dd", { class: "soft more" });
  const chart = line(of.name, of.text);
  const node = el("div", { class: "figure" }, el("dt", {}, of.name), value, more, el("dd", { class: "chart-place" }, chart.node));
  return {
    node,
    now(now) {
      setText(value, of.value(now));
      setText(more, of.more(now));
      value.classList.toggle("bad", Boolean(of.bad?.(now)));
    },
    history: series => chart.update(of.series(series)),
  };
}

/** The figures of the service. */
export function overview() {
  const figures = FIGURES.map(figure);
  const about = el("p", { class: "soft about" });
  const node = el("section", { "aria-labelledby": "overview-title" },
    el("h1", { id: "overview-title", class: "hidden" }, "Now"), el("dl", { class: "figures" }, ...figures.map(each => each.node)), about);
  let series = null;
  return {
    node,
    history(event) {
      series = extended(series, event);
      for (const each of figures) each.history(series);
    },
    now(now) {
      for (const each of figures) each.now(now);
      setText(about, [
        `${plain(now.name)}, version ${now.version}, up ${span(now.uptime_ms)}`,
        now.config.file ? `configuration ${now.config.generation} of ${plain(now.config.file)}${now.config.stale ? " (the file has a newer one that can't be used)" : ""}` : "no configuration file",
        plural(now.overrides, "override"),
        now.store.durable ? null : "the state ends with the process",
      ].filter(part => part).join(" · "));
    },
  };
}

/** Rows of the list of denied keys. */
const DENIED = 8;

function deniedRow() {
  const cells = ["who", "limit", "policy", "number", "soft"].map(name => el("td", { class: name }));
  const node = el("tr", {}, ...cells);
  let name = null;
  return {
    node,
    update(group) {
      const row = group.last.parts[0];
      const refused = group.last.parts.find(part => part.limit === row.binding_limit) ?? row;
      if (name !== group.id) {
        cells[0].replaceChildren(keyLink(refused.limit, refused, 48));
        cells[1].replaceChildren(limitLink(refused.limit));
        name = group.id;
      }
      setText(cells[2], row.binding ? plain(row.binding) : row.code ?? (row.source === "bypass" ? "block list" : row.source));
      setText(cells[3], `${count(group.count)}×`);
      const left = row.retry_after_ms === null ? null : row.retry_after_ms - (performance.now() - group.last.at);
      setText(cells[4], left === null ? "never passes" : left > 0 ? `passes in ${span(left)}` : "may pass now");
      setAttribute(node, "data-key", keyName(refused));
    },
  };
}

/** The keys that are denied, by what, and until when: from the newest denied decisions. */
export function deniedNow() {
  const body = el("tbody");
  const none = el("p", { class: "soft", hidden: true }, "No request was denied lately.");
  const about = el("p", { class: "soft", hidden: true }, `Counted in the newest ${count(KEPT)} denials of the last 5 min that this page has seen.`);
  const head = ["key", "limit", "denied by", "times", "then"].map(text => el("th", { scope: "col", class: text === "times" ? "number" : null }, text));
  const list = el("table", { class: "denied-now", "aria-labelledby": "denied-title", hidden: true }, el("thead", {}, el("tr", {}, ...head)), body);
  const node = el("section", { "aria-labelledby": "denied-title" }, el("h2", { id: "denied-title" }, "Denied lately"), none, about, list);
  return {
    node,
    /** @param {import("./decisions.js").Decided[]} decisions the newest first */
    update(decisions) {
      const recent = decisions.filter(each => !each.parts[0].allowed && performance.now() - each.at < 5 * 60_000);
      const groups = grouped(recent).sort((a, b) => b.count - a.count).slice(0, DENIED);
      none.hidden = groups.length > 0;
      list.hidden = groups.length === 0;
      about.hidden = list.hidden;
      fill(body, groups, group => group.id, deniedRow);
    },
  };
}
