/** The newest decisions, live, which stand still while the operator reads. */

import { ApiError, errorOf, send, withQuery } from "./api.js";
import { Decisions, grouped, outcome, refusal, retry, showParts, times } from "./decisions.js";
import { button, el, field, fill, select, setAttribute, setText, settled, table } from "./dom.js";
import { ago, count, fileName, plain } from "./text.js";

const FILTERS = ["limit", "key", "prefix", "outcome", "policy", "source", "client"];
const ROWS = 100;
/** The service has no longer page. */
const EXPORTED = 1000;

function row() {
  const cells = ["soft number", "", "outcome", "mid", "number", "number", "mid soft"].map(name => el("td", { class: name }));
  const node = el("tr", {}, ...cells);
  let number = 0;
  return {
    node,
    update({ count: repeats, last }) {
      const first = last.parts[0];
      setText(cells[0], ago(performance.now() - last.at));
      setText(cells[4], retry(first));
      setText(cells[5], times(repeats));
      if (number === last.number) return;
      // The links stay the same elements, so that the focus stays.
      if (!number) showParts(cells[1], last.parts);
      number = last.number;
      setText(cells[2], outcome(first));
      cells[2].className = first.allowed ? (first.shadow_denied ? "shadowed" : "") : "bad";
      setText(cells[3], refusal(first));
      setText(cells[6], plain(first.client ?? "").replace("⟨empty⟩", ""));
    },
  };
}

/**
 * The view of decisions.
 * @param {() => void} onquery is called when the filters of the stream change
 */
export function recentView(onquery) {
  const decisions = new Decisions();
  const inputs = {
    limit: el("input", { autocomplete: "off" }),
    key: el("input", { autocomplete: "off" }),
    prefix: el("input", { autocomplete: "off" }),
    outcome: select([["", "any"], "allowed", "denied", ["shadow_denied", "denied in shadow"]]),
    policy: el("input", { autocomplete: "off" }),
    source: select([["", "any"], "store", "lease", "deny-cache", "fallback", "bypass"]),
    client: el("input", { autocomplete: "off" }),
  };
  const labels = { limit: "Limit", key: "Key", prefix: "Key begins with", outcome: "Outcome", policy: "Refused by policy", source: "Source", client: "Client" };
  const changed = settled(() => {
    decisions.clear();
    onquery();
  });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter the decisions", oninput: changed, onsubmit: event => event.preventDefault() },
    ...FILTERS.map(name => field(labels[name], inputs[name])));
  const body = el("tbody");
  const list = table("Recent decisions", [["when", "number"], "limit and key", "outcome", ["refused by", "mid"], ["retry after", "number"], ["times", "number"], ["client", "mid"]], body);
  const none = el("p", { class: "soft" }, "No decision passes these filters yet.");
  const fresh = el("span", { class: "soft" });
  const pause = button("Pause", () => {
    chosen = !chosen;
    hold();
  }, { "aria-pressed": "false" });
  const problem = el("p", { class: "problem", role: "alert" });
  const export_ = button("Export JSON lines", () => download().catch(error => { problem.textContent = error.message; }),
    { title: `At most the newest ${count(EXPORTED)} decisions` });
  const node = el("section", { class: "view", "aria-labelledby": "decisions-title" },
    el("div", { class: "head" }, el("h1", { id: "decisions-title" }, "Decisions"), pause, fresh, export_), form, problem, none, list);

  /** Whether the operator pressed `Pause`, and whether the pointer or the focus is in the list, or it is scrolled. */
  let chosen = false;
  const held = { pointer: false, focus: false, scroll: false };
  let unseen = 0;
  let leftOut = 0;
  const isHeld = () => chosen || held.pointer || held.focus || held.scroll;

  function hold() {
    setAttribute(pause, "aria-pressed", String(chosen));
    setText(pause, chosen ? "Resume" : "Pause");
    if (!isHeld()) render();
    said();
  }
  function said() {
    const left = leftOut ? `; the service left out ${count(leftOut)}` : "";
    setText(fresh, (isHeld() ? `standing still, ${count(unseen)} new` : "live") + left);
  }
  function render() {
    unseen = 0;
    const groups = grouped(decisions.list).slice(0, ROWS);
    fill(body, groups, group => group.id, row);
    none.hidden = groups.length > 0;
    list.hidden = groups.length === 0;
    said();
  }
  const set = (why, value) => () => {
    if (held[why] === value) return;
    held[why] = value;
    hold();
  };
  list.addEventListener("pointerenter", set("pointer", true));
  list.addEventListener("pointerleave", set("pointer", false));
  list.addEventListener("focusin", set("focus", true));
  list.addEventListener("focusout", event => set("focus", list.contains(event.relatedTarget))());
  const scrolled = () => set("scroll", !node.hidden && node.isConnected && (window.scrollY > 120 || list.scrollTop > 0))();
  addEventListener("scroll", scrolled, { passive: true });

  /** The filters of the address. A field shows them with odd characters visible, and they count until it is changed. */
  let given = {};
  const valueOf = name => (given[name] && plain(given[name]) === inputs[name].value ? given[name] : inputs[name].value);
  const filters = () => Object.fromEntries(FILTERS.map(name => [name, valueOf(name)]));

  async function download() {
    problem.textContent = "";
    const response = await send(withQuery("v1/recent", { ...filters(), count: EXPORTED, format: "jsonl" }));
    if (!response.ok) throw await errorOf(response);
    const blob = await response.blob();
    if (!blob.size) throw new ApiError(0, "empty", "No decision passes these filters.");
    const url = URL.createObjectURL(blob);
    el("a", { href: url, download: `${fileName("decisions", inputs.limit.value, inputs.key.value)}.jsonl` }).click();
    // The browser has begun to read it by then.
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  return {
    node,
    query: filters,
    show(parameters) {
      // An address without filters leaves those of the fields.
      if (FILTERS.some(name => name in parameters)) {
        given = parameters;
        for (const name of FILTERS) inputs[name].value = parameters[name] ? plain(parameters[name]) : "";
        decisions.clear();
      }
      render();
    },
    clear() {
      decisions.clear();
    },
    event(data) {
      unseen += decisions.add(data.rows);
      leftOut = data.left_out;
      if (isHeld()) said();
      else render();
    },
    tick() {
      if (!isHeld()) render();
    },
  };
}
