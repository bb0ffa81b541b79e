/** The drawer of one key under one limit: its state, why it is so, and what can be done. */

import { call, maybe, withQuery } from "./api.js";
import * as actions from "./actions.js";
import { gauge } from "./chart.js";
import { Decisions, grouped, outcome, refusal, showParts, times } from "./decisions.js";
import { button, el } from "./dom.js";
import { entryOf, specsOf } from "./entry.js";
import { address, limitLink } from "./links.js";
import { askClear, askOverride, current, overrideSentence } from "./override.js";
import { ago, count, plain, shown, span } from "./text.js";
import { reasons } from "./why.js";

/** A part of the drawer that is made again only if its data changes, so that the focus stays in it. */
function part(title, make) {
  const content = el("div");
  const heading = el("h3", {}, title);
  const node = el("section", { hidden: true }, heading, content);
  let known = "";
  return {
    node,
    update(data, ...more) {
      const text = JSON.stringify(data ?? null);
      if (text === known) return;
      known = text;
      node.hidden = data === null || data === undefined;
      if (!node.hidden) content.replaceChildren(...make(data, ...more));
    },
  };
}

/** Returns the verdict as a sentence. */
function verdict(decision) {
  if (decision.ban) return `Banned: every request is denied for ${span(decision.ban.ends_in_ms)}.`;
  if (decision.pause) return `Paused${decision.pause.policy ? ` (${plain(decision.pause.policy)})` : ""}: denied for ${span(decision.pause.ends_in_ms)}.`;
  if (decision.allowed) return decision.source === "bypass" ? "Allowed without a count: the limit is off, or the key is on an allow list." : "A request of one unit would be allowed now.";
  if (decision.source === "bypass") return "Blocked: the key is on a block list, or has a blocking override.";
  const next = decision.retry_after_ms === null ? "never passes" : `passes in ${span(decision.retry_after_ms)}`;
  return `Denied by ${plain(decision.binding ?? decision.code ?? decision.source)}: a request of one unit ${next}.`;
}

function bars(decision) {
  const items = decision.policies.map(policy => {
    const { name, limit, remaining } = policy;
    const text = limit === null || remaining === null ? `in debt or unbounded` : `${count(limit - remaining)} of ${count(limit)} used, ${count(remaining)} left`;
    const back = policy.reset_after_ms ? `, fresh in ${span(policy.reset_after_ms)}` : "";
    const label = `${plain(name)}: ${text}${back}`;
    return el("li", { class: policy.allowed ? "" : "bad" }, el("span", { class: "bar-name" }, plain(name), policy.shadow ? el("span", { class: "tag" }, "shadow") : ""),
      limit === null || remaining === null ? "" : gauge(limit - remaining, limit, label), el("span", { class: "bar-text" }, text + back));
  });
  return [el("p", { class: decision.allowed ? "verdict" : "verdict bad" }, verdict(decision)), el("ul", { class: "bars" }, ...items)];
}

/** Answers change each second by their ages alone: the drawer shows them by the second. */
const rounded = decision => decision && {
  ...decision, retry_after_us: 0,
  policies: decision.policies.map(policy => ({ ...policy, retry_after_us: 0, reset_after_us: 0, reset_after_ms: Math.ceil((policy.reset_after_ms ?? 0) / 1000) * 1000 })),
};

export class KeyDrawer {
  /** @param {() => void} onclose */
  constructor(onclose) {
    this.node = /** @type {HTMLElement} */ (document.getElementById("drawer"));
    this.onclose = onclose;
    this.of = null;
    this.turn = 0;
    this.timer = 0;
    this.opener = null;
    this.node.addEventListener("keydown", event => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
        event.preventDefault();
        this.onclose();
      }
    });
  }

  /** Opens the drawer for a key, or shows another one in it. */
  open(limit, key) {
    if (this.of?.limit === limit && this.of?.key === key) return;
    if (!this.of) this.opener = document.activeElement;
    this.turn += 1;
    this.entry = null;
    this.others = new Map();
    this.of = { limit, key, decision: null, done: () => this.refresh(true) };
    this.build();
    this.node.hidden = false;
    document.getElementById("drawer-title").focus();
    this.findBans();
    this.refresh(true);
  }

  /** Hides the bans of a limit that has no rule for them. */
  async findBans() {
    const { turn, bans, hint } = this;
    const error = await call(withQuery("v1/bans", { limit: this.of.limit, count: 1 })).catch(caught => caught);
    if (turn !== this.turn) return;
    hint.hidden = error.code !== "unsupported";
    for (const each of bans) each.hidden = !hint.hidden;
  }

  close() {
    if (!this.of) return;
    this.of = null;
    this.turn += 1;
    clearTimeout(this.timer);
    this.node.hidden = true;
    this.node.replaceChildren();
    const back = this.opener?.isConnected && this.opener !== document.body ? this.opener : document.getElementById("main");
    this.opener = null;
    back.focus({ preventScroll: true });
  }

  build() {
    const { of } = this;
    const act = (text, run, attributes) => button(text, () => run(this.of), attributes);
    this.problem = el("p", { class: "problem", role: "alert" });
    this.bans = [act("Ban…", actions.ban), act("Unban…", actions.unban)];
    this.hint = el("p", { class: "soft", hidden: true }, "This limit has no rule for bans: use “Pause…” instead.");
    this.parts = {
      state: part("State", bars),
      override: part("Override", override => [
        el("p", {}, override.found ? overrideSentence(override.found) : "none"),
        el("p", { class: "buttons" }, button("Override…", () => askOverride(of.limit, of.key, specsOf(this.entry), of.done)),
          override.found && button("End the override…", () => askClear(of.limit, of.key, of.done))),
      ]),
      why: part("Why", answer => [reasons(answer)]),
      holds: part("Holds", ({ holders, waiting, next }) => [
        el("p", {}, holders.length ? `${holders.length}${next ? " or more" : ""} in flight, ${count(waiting)} waiting.` : `None in flight, ${count(waiting)} waiting.`),
        el("ul", { class: "holds" }, ...holders.map(each => el("li", {},
          `${Object.entries(each.units).map(([name, units]) => `${count(units)} ${plain(name)}`).join(", ")}, ends in ${span(each.ends_in_ms)} `,
          each.hold && button("End…", () => actions.revoke(of, each.hold), { "aria-label": `End the hold ${each.hold}`, class: "plain" })))),
      ]),
      decisions: part("Last decisions", groups => groups.map(group => {
        const first = group.parts[0];
        const where = el("span", { class: "parts" });
        if (first.together) showParts(where, group.parts);
        return el("div", { class: "decided" }, el("span", { class: "soft number" }, group.text), " ",
          el("span", { class: first.allowed ? "" : "bad" }, outcome(first)), " ", refusal(first), " ", times(group.count), where);
      })),
    };
    this.node.replaceChildren(
      el("header", {}, el("h2", { id: "drawer-title", tabindex: "-1" }, "Key ", shown(of.key, 300)), button("Close", () => this.onclose(), { class: "plain" })),
      el("p", {}, "under ", limitLink(of.limit), " · ", el("a", { href: address("decisions", { limit: of.limit, key: of.key }) }, "all its decisions")),
      this.problem, this.parts.state.node,
      el("div", { class: "buttons", role: "group", "aria-label": "Actions on the key" },
        act("Peek", () => this.refresh(true)), ...this.bans, act("Pause…", actions.pause),
        act("Resume…", actions.resume), act("Refund…", actions.refund), act("Reset…", actions.reset)), this.hint,
      this.parts.why.node, this.parts.override.node, this.parts.holds.node, this.parts.decisions.node);
  }

  /** Reads the state of the key; the slower parts only each fourth time, or if `all`. */
  async refresh(all = false) {
    clearTimeout(this.timer);
    const { turn, of } = this;
    if (!of) return;
    this.count = all ? 0 : (this.count ?? 0) + 1;
    const ask = { limit: of.limit, key: of.key };
    try {
      const decision = await call("v1/peek", ask);
      if (turn !== this.turn) return;
      of.decision = decision;
      this.problem.textContent = "";
      this.parts.state.update(rounded(decision));
      if (this.count % 4 === 0) await this.more(turn, ask);
      await this.recent(turn, ask);
    } catch (error) {
      if (turn === this.turn) this.problem.textContent = error.message;
    }
    clearTimeout(this.timer);
    if (turn === this.turn) this.timer = setTimeout(() => this.refresh(), 2000);
  }

  async more(turn, ask) {
    this.entry ??= await maybe(entryOf(ask.limit));
    if (turn !== this.turn) return;
    const holds = specsOf(this.entry).some(spec => spec.startsWith("concurrency"));
    const [why, holders, override] = await Promise.all([
      maybe(call("v1/explain", ask)), holds ? maybe(call(withQuery("v1/holders", { ...ask, count: 20 }))) : null, current(ask.limit, ask.key).catch(() => null),
    ]);
    if (turn !== this.turn) return;
    this.parts.why.update(why);
    this.parts.holds.update(holders);
    this.parts.override.update({ found: override });
  }

  async recent(turn, ask) {
    const answer = await call(withQuery("v1/recent", { ...ask, count: 30 }));
    if (turn !== this.turn) return;
    const rows = await this.together(answer.recent);
    if (turn !== this.turn) return;
    const decisions = new Decisions();
    decisions.add(rows);
    const own = decisions.list.filter(each => each.parts.some(row => row.limit === ask.limit && row.key === ask.key));
    const groups = grouped(own).slice(0, 12);
    this.parts.decisions.update(groups.map(group => ({
      parts: group.last.parts.map(({ age_ms: _, age_us: __, ...row }) => row), count: group.count, text: ago(performance.now() - group.last.at),
    })));
  }

  /** Adds the rows of the other limits to joint decisions: the filter by key leaves them out. It asks for a few at a time. */
  async together(rows) {
    const joint = rows.filter(row => row.together);
    this.others = new Map(joint.filter(row => this.others.has(row.number)).map(row => [row.number, this.others.get(row.number)]));
    const { others } = this;
    await Promise.all(joint.filter(row => !others.has(row.number)).slice(0, 6).map(async row => {
      // They are numbered one after the other, and are 16 at most.
      const near = await maybe(call(withQuery("v1/recent", { since: Math.max(0, row.number - 17), count: 40 })));
      if (near) others.set(row.number, near.recent.filter(other => other.time === row.time && row.together.includes(other.limit)));
    }));
    return [...rows, ...[...others.values()].flat()];
  }
}
