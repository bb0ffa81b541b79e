/** The processes with the same store, and the shares of limits that Envoys have. */

import { call } from "./api.js";
import { el, setText, table } from "./dom.js";
import { keyLink, limitLink } from "./links.js";
import { count, plain, plural, rate, span } from "./text.js";

function processRow(process, usual) {
  const differs = process.config !== usual;
  return el("tr", {},
    el("th", { scope: "row" }, plain(process.name), process.is_self ? el("span", { class: "tag" }, "this one") : ""),
    el("td", { class: "mid" }, process.version), el("td", { class: "number mid" }, span(process.uptime_ms)), el("td", { class: "number" }, count(process.decisions_per_s)),
    el("td", { class: "number mid" }, count(process.leased_units)),
    el("td", { class: differs ? "bad" : "" }, el("code", {}, process.config ?? "none"), ` for ${span(process.config_age_ms)}`,
      process.refused ? el("details", {}, el("summary", { class: "bad" }, `refused a file ${span(process.refused.age_ms)} ago`),
        el("pre", {}, process.refused.message.split("\n").map(line => line.replace(/[^ ]+/g, plain)).join("\n"))) : null));
}

const shareRow = (limit, who, { assigned_buckets, rate: total, assigned, needed, unassigned }) => el("tr", {}, el("td", {}, limitLink(limit)), el("td", {}, who),
  ...[assigned_buckets, total, assigned, needed, unassigned].map(number => el("td", { class: "number" }, rate(number))));

/** Returns the configurations, that of most processes first; of equals, the one that was taken over last. */
function configurations(processes) {
  const known = new Map();
  for (const { config, config_age_ms: age } of processes) {
    const { processes: number, age: least } = known.get(config) ?? { processes: 0, age };
    known.set(config, { config, processes: number + 1, age: Math.min(age, least) });
  }
  return [...known.values()].sort((a, b) => b.processes - a.processes || a.age - b.age);
}

/** The part of the view about the fleet. It stays as it is while its content doesn't change. */
export function fleetPart() {
  const about = el("p");
  const processes = el("tbody");
  const shares = el("tbody");
  const streams = el("p", { class: "soft" });
  const quotas = el("section", { "aria-labelledby": "quotas-title", hidden: true }, el("h2", { id: "quotas-title" }, "Shares of Envoys"), streams,
    table("Shares of Envoys", ["limit", "key", ["buckets with a share", "number"], ["rate", "number"], ["assigned", "number"], ["needed", "number"], ["unassigned", "number"]], shares));
  const node = el("div", {}, el("section", { "aria-labelledby": "fleet-title" }, el("h2", { id: "fleet-title" }, "Fleet"), about,
    table("Processes", ["process", ["version", "mid"], ["up", "number mid"], ["decisions/s", "number"], ["leased", "number mid"], "configuration"], processes)), quotas);
  async function load() {
    let fleet;
    try {
      fleet = await call("v1/fleet");
    } catch (error) {
      setText(about, error.message);
      return;
    }
    const all = configurations(fleet.processes);
    const [usual, other] = all;
    const which = usual?.processes === other?.processes ? "that was taken over last" : "that most processes have";
    setText(about, fleet.differing_for_ms === null ? `${plural(fleet.processes.length, "process").replace("processs", "processes")}, one configuration.`
      : `${plural(all.length, "configuration")} have decided at the same time for ${span(fleet.differing_for_ms)}. The marked processes don't have the one ${which}: reload them, or repair their file.`);
    about.className = fleet.differing_for_ms === null ? "soft" : "bad";
    // An open detail, and the reader's place in it, stays.
    if (!processes.querySelector("details[open]")) processes.replaceChildren(...fleet.processes.map(process => processRow(process, usual.config)));
    quotas.hidden = fleet.quotas.limits.length === 0;
    if (quotas.hidden) return;
    setText(streams, `${plural(fleet.quotas.streams, "stream")} with ${plural(fleet.quotas.buckets, "bucket")}. Rates are in requests per second.`);
    shares.replaceChildren(...fleet.quotas.limits.flatMap(({ limit, keys, shares: all, busiest }) => [
      ...(keys > 1 ? [shareRow(limit, `all ${count(keys)} keys`, all)] : []),
      ...busiest.map(each => shareRow(limit, keyLink(limit, each, 40), each.shares)),
    ]));
  }
  return { node, load };
}
