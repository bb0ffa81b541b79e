/** A row per limit, in a window that the service sorts and filters. */

import { stack } from "./chart.js";
import { button, el, field, fill, select, setText, settled, table } from "./dom.js";
import { specsOf } from "./entry.js";
import { limitDetails } from "./limit.js";
import { keyLink } from "./links.js";
import { count, keyId, plain, plural, rate } from "./text.js";

const CAPACITY = "What the key with the highest use took, as a share of what it could take under the fullest policy, in all processes.";

/** Fills a cell with keys and their counts. */
function showKeys(cell, limit, keys) {
  fill(cell, keys ?? [], keyId, () => {
    const number = el("span", { class: "soft number" });
    const node = el("div", { class: "top-key" });
    return {
      node,
      update(entry) {
        if (!node.firstChild) node.append(keyLink(limit, entry, 26), " ", number);
        setText(number, count(entry.count));
      },
    };
  });
}

function limitRow(onopen) {
  const open = el("button", { type: "button", class: "name", "aria-expanded": "false" });
  const tags = el("span", { class: "tags" });
  const policies = el("td", { class: "wide policies" });
  const chartCell = el("td", { class: "chart-place" });
  const cells = Object.fromEntries(["allowed", "denied", "sum"].map(name => [name, el("td", { class: `number ${name === "denied" ? "" : "mid"}` })]));
  const topDenied = el("td", { class: "keys" });
  const topUsed = el("td", { class: "keys wide" });
  const share = el("td", { class: "number mid" });
  const head = el("tr", {}, el("th", { scope: "row" }, open, tags), policies, chartCell, cells.allowed, cells.denied, cells.sum, topDenied, topUsed, share);
  const inside = el("td", { colspan: "9" });
  const more = el("tr", { class: "details", hidden: true }, inside);
  const node = el("tbody", {}, head, more);
  let chart = null;
  let details = null;
  let name = null;
  let known = "";
  const toggle = (wanted = more.hidden) => {
    more.hidden = !wanted;
    open.setAttribute("aria-expanded", String(wanted));
    if (wanted && !details) {
      details = limitDetails(name);
      inside.replaceChildren(details.node);
    } else if (!wanted) {
      // What is closed must not hold its elements.
      details = null;
      inside.replaceChildren();
    }
    onopen(name, wanted);
  };
  open.addEventListener("click", () => toggle());
  return {
    node,
    toggle,
    update({ row, isOpen }) {
      if (name === null) {
        name = row.name;
        setText(open, plain(name));
        chart = stack(plain(name));
        chartCell.append(chart.node);
      }
      const state = JSON.stringify([row.policies, row.enabled, row.overridden, row.shadow]);
      if (state !== known) {
        known = state;
        policies.replaceChildren(...specsOf(row).map(spec => el("code", {}, plain(spec))));
        const words = [!row.enabled && "off", row.overridden && "overridden", row.shadow && "shadow"].filter(word => word);
        tags.replaceChildren(...words.map(word => el("span", { class: "tag" }, word)));
      }
      if (row.history) chart.update(row.history);
      setText(cells.allowed, rate(row.rates.allowed));
      setText(cells.denied, rate(row.rates.denied) + (row.rates.shadow_denied ? ` (+${rate(row.rates.shadow_denied)} shadow)` : ""));
      cells.denied.classList.toggle("bad", row.rates.denied > 0);
      setText(cells.sum, `${count(row.sums.allowed)} / ${count(row.sums.denied)}`);
      showKeys(topDenied, name, row.top_denied);
      showKeys(topUsed, name, row.top_used);
      setText(share, row.capacity_permille === null || row.capacity_permille === undefined ? "–" : `${rate(row.capacity_permille / 10)} %`);
      if (isOpen && more.hidden) toggle(true);
      details?.policies(specsOf(row));
    },
  };
}

/**
 * The table of limits.
 * @param {() => void} onquery is called when the window changes
 */
export function limitsView(onquery) {
  let offset = 0;
  let last = { matching: 0, total: 0 };
  /** The limits that are open, at most as many as a window has rows. */
  const opened = new Set();
  const search = el("input", { type: "search", autocomplete: "off" });
  const sort = select([["denied", "most denied"], ["rate", "most requests"], ["shadow", "most shadow denials"], ["capacity", "most used capacity"], ["name", "name"]]);
  const show = select([["all", "all"], ["busy", "busy"], ["denied", "denying"], ["shadow", "in shadow"], ["overridden", "overridden"], ["off", "off"]]);
  const size = select(["25", "50", "100", "200"]);
  size.value = "50";
  const ask = settled(onquery);
  // The first window, even if a button is pressed before the service is asked.
  const changed = () => {
    offset = 0;
    ask();
  };
  const form = el("form", { class: "filters", role: "search", "aria-label": "Find limits", oninput: changed, onsubmit: event => event.preventDefault() },
    field("Search", search), field("Sort by", sort), field("Show", show), field("Rows", size));
  const list = table("Limits", ["limit", ["policies", "wide"], "last 15 min", ["allowed/s", "number mid"], ["denied/s", "number"],
    ["allowed / denied in 15 min", "number mid"], "top denied keys", ["top keys by use", "wide"], ["used capacity", "number mid", CAPACITY]], el("tbody", { hidden: true }));
  const rows = list.querySelector("table");
  // The rows are bodies of their own, after the head.
  rows.querySelector("tbody").remove();
  const holder = rows;
  const place = el("p", { class: "soft", id: "limits-place" });
  const move = by => () => {
    offset = Math.max(0, offset + by * Number(size.value));
    onquery();
  };
  const earlier = button("Previous", move(-1));
  const later = button("Next", move(1));
  const node = el("section", { "aria-labelledby": "limits-title" }, el("h2", { id: "limits-title" }, "Limits"), form, list,
    el("div", { class: "buttons" }, earlier, later, place));
  const onopen = (name, isOpen) => (isOpen ? opened.add(name) : opened.delete(name));
  const fixed = [...holder.children];
  return {
    node,
    query: () => ({ sort: sort.value, show: show.value, search: search.value, count: size.value, offset }),
    /** Shows one limit, opened, or those that an address chooses. */
    find({ limit = "", show: which }) {
      search.value = limit;
      if (limit) sort.value = "name";
      show.value = which ?? "all";
      // An unknown choice selects nothing.
      show.value ||= "all";
      offset = 0;
      opened.clear();
      if (limit) opened.add(limit);
    },
    event(data) {
      last = data;
      if (data.rows.length === 0 && data.matching > 0 && offset > 0) {
        // The window is past the end: there are fewer limits than before.
        offset = 0;
        onquery();
        return;
      }
      const items = data.rows.map(row => ({ name: row.name, row, isOpen: opened.has(row.name) }));
      // The caption and the head come first.
      fillBodies(holder, fixed.length, items, () => limitRow(onopen));
      earlier.disabled = data.offset === 0;
      later.disabled = data.offset + data.rows.length >= last.matching;
      const from = data.rows.length ? data.offset + 1 : 0;
      setText(place, `${count(from)} to ${count(data.offset + data.rows.length)} of ${plural(data.matching, "limit")}${data.matching === data.total ? "" : `, of ${count(data.total)} in all`}`);
    },
  };
}

/** Fills the bodies of a table, which follow its fixed children. */
function fillBodies(holder, fixed, items, make) {
  const head = [...holder.children].slice(0, fixed);
  const wanted = [...head.map((node, index) => ({ name: `\0${index}`, fixed: node })), ...items];
  fill(holder, wanted, item => item.name, () => {
    let row = null;
    return {
      get node() { return row.node; },
      update(item) {
        row ??= item.fixed ? { node: item.fixed, update() {} } : make();
        row.update(item);
      },
    };
  });
}
