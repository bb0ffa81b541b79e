/** The page: its views by the address, and one stream for all of them. */

import { askAgain, forgetToken, hasToken } from "./api.js";
import { configView } from "./config.js";
import { Decisions } from "./decisions.js";
import { button, el, setText } from "./dom.js";
import { KeyDrawer } from "./key.js";
import { limitsView } from "./limits.js";
import { address, parsed } from "./links.js";
import { deniedNow, overview, problemList } from "./overview.js";
import { recentView } from "./recent.js";
import { Stream } from "./stream.js";
import { plain, plural, span } from "./text.js";
import { whatIfView } from "./whatif.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
const stale = document.getElementById("stale");
const forget = document.getElementById("forget");

const problems = problemList();
const figures = overview();
const denied = deniedNow();
const newestDenied = new Decisions();
const limits = limitsView(() => connect());
const recent = recentView(() => connect());

const now = {
  node: el("div", { class: "view" }, figures.node, denied.node, limits.node),
  show(parameters) {
    if (parameters.limit !== undefined || parameters.show !== undefined) limits.find(parameters);
  },
  // Before the first event, nothing is known about denials.
  tick: () => problemCount !== null && denied.update(newestDenied.list),
};
const views = { now, decisions: recent, "what-if": whatIfView(), config: configView() };
let view = "";
/** The address below the drawer. */
let below = "#/";
/** Null until the service was heard. */
let problemCount = null;
let title = "Sluicegate";

main.replaceChildren(problems.node, ...Object.values(views).map(each => each.node));

/** Returns the parameters of the stream for the view. */
function query() {
  if (view === "decisions") return { count: 0, ...recent.query() };
  return { ...(view === "now" ? limits.query() : { count: 0 }), outcome: "denied" };
}

let asked = "";
let refusal = null;
/** Asks for what the view shows. Another question begins from nothing; the same one resumes. */
function connect() {
  const wanted = query();
  const text = JSON.stringify(wanted);
  if (text === asked) return;
  asked = text;
  stream.id = "";
  newestDenied.clear();
  stream.ask(wanted);
}

const stream = new Stream((kind, data) => {
  if (kind === "history") {
    figures.history(data);
    // Another process numbers its decisions from the start.
    if (data.whole) {
      newestDenied.clear();
      recent.clear();
    }
  } else if (kind === "now") {
    figures.now(data);
    problems.update(data.problems);
    problemCount = data.problems.length;
    retitle();
  } else if (kind === "limits" && view === "now") {
    limits.event(data);
  } else if (kind === "recent") {
    if (view === "decisions") recent.event(data);
    else newestDenied.add(data.rows);
  }
}, (state, message) => {
  refusal = state === "refused" ? message : null;
  const words = { live: "live", connecting: "connecting…", waiting: "disconnected", refused: "refused" };
  setText(live, words[state]);
  live.className = state === "live" ? "" : "bad";
  if (state === "waiting") live.title = plain(message);
  else live.removeAttribute("title");
  tellStale();
});

/** Says that what is shown is old, and what the page does about it. */
function tellStale() {
  const silent = stream.staleFor();
  const hide = !silent && refusal === null;
  if (hide !== stale.hidden) stale.hidden = hide;
  document.body.classList.toggle("is-stale", silent > 0);
  if (hide) return;
  if (refusal !== null) {
    if (stale.dataset.text === refusal) return;
    stale.dataset.text = refusal;
    stale.replaceChildren(`${plain(refusal)} `, button("Try again", () => {
      askAgain();
      stream.ask();
    }));
    return;
  }
  delete stale.dataset.text;
  // The number is announced only once, so the words that change are hidden from screen readers.
  if (!stale.querySelector(".for")) {
    stale.replaceChildren("What you see is old: the service is silent, and the page tries to connect again.", el("span", { class: "for", "aria-hidden": "true" }));
  }
  setText(stale.querySelector(".for"), ` Nothing for ${span(silent)}.`);
}

function retitle() {
  const text = `${problemCount ? `${plural(problemCount, "problem")} · ` : ""}${title}`;
  if (document.title !== text) document.title = text;
}

const drawer = new KeyDrawer(() => {
  if (parsed(location.hash).view === "key") location.hash = below;
});

/** Shows what the address says. */
function route() {
  const { view: name, parameters } = parsed(location.hash);
  const isKey = name === "key" && parameters.limit !== undefined && parameters.key !== undefined;
  const wanted = isKey ? view || "now" : name in views ? name : "now";
  if (!isKey) {
    below = location.hash || "#/";
    drawer.close();
  }
  const isOther = wanted !== view;
  view = wanted;
  title = isKey ? `${plain(parameters.key).slice(0, 60)} · ${plain(parameters.limit)} · Sluicegate` : "Sluicegate";
  retitle();
  for (const [each, { node }] of Object.entries(views)) node.hidden = each !== view;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!isKey) views[view].show(parameters);
  if (!isKey && isOther && main.contains(document.activeElement) === false) scrollTo(0, 0);
  connect();
  if (isKey) drawer.open(parameters.limit, parameters.key);
}

document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault();
  main.focus();
});
forget.hidden = !hasToken();
forget.addEventListener("click", forgetToken);
addEventListener("hashchange", route);
// A browser keeps a page that was left, with its connection, and has six connections to an address.
addEventListener("pagehide", () => stream.close());
addEventListener("pageshow", event => event.persisted && stream.ask());
if (!location.hash) history.replaceState(null, "", address(""));
route();
setInterval(() => {
  stream.watch();
  tellStale();
  views[view].tick?.();
}, 1000);
