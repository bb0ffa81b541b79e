/** Numbers, times and keys as text. */

import { el } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** Returns a count, such as `1,204`. */
export const count = number => (number === null || number === undefined ? "–" : whole.format(number));

/** Returns a rate per second. */
export const rate = number => (number === null || number === undefined ? "–" : number < 100 ? tenths.format(number) : whole.format(number));

/** Returns a share in percent. */
export function percent(part, all) {
  if (!all) return "–";
  const share = (part / all) * 100;
  return `${share > 0 && share < 0.1 ? "<0.1" : tenths.format(share)} %`;
}

/** Returns a number of bytes. */
export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < 4) {
    number /= 1024;
    unit += 1;
  }
  return `${number < 100 && unit ? tenths.format(number) : whole.format(number)} ${units[unit]}`;
}

/** Returns a time in microseconds, such as a latency. */
export function micros(us) {
  if (us === null || us === undefined) return "–";
  if (us < 1000) return `${whole.format(us)} µs`;
  return us < 1e6 ? `${(us / 1000).toPrecision(3)} ms` : `${(us / 1e6).toPrecision(3)} s`;
}

/** Returns a span of time in at most two units, rounded up, as the command line says it. */
export function span(ms) {
  if (ms === null || ms === undefined) return "never";
  if (ms < 1000) return `${Math.ceil(ms)} ms`;
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  let rest = Math.ceil(ms / 1000);
  const first = units.findIndex(([, unit]) => rest >= unit);
  const finest = units[Math.min(first + 1, 3)][1];
  rest = Math.ceil(rest / finest) * finest;
  const words = [];
  for (const [name, unit] of units) {
    if (rest >= unit) words.push(`${Math.floor(rest / unit)} ${name}`);
    rest %= unit;
  }
  return words.join(" ");
}

/** Returns how long ago something was. */
export const ago = ms => (ms === null || ms === undefined ? "–" : ms < 1000 ? "now" : `${span(ms)} ago`);

/** Returns `1 key` or `3 keys`. */
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/**
 * Characters that are invisible, move others, or look like one of our marks: controls, formats, unassigned ones, fillers,
 * variation selectors, and every space except the ordinary one.
 */
const ODD = /[\p{C}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}\u27e8\u27e9]|[^\S ]|^ +| +$| {2,}/gu;

const mark = odd => [...odd].map(char => `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`).join("");

/** Returns a text of others, such as a key, with all its odd characters visible. */
export const plain = text => (text === "" ? "⟨empty⟩" : text.replace(ODD, mark));

/** Returns a text of others as an element. `most` is the number of characters that are shown. */
export function shown(text, most = Infinity) {
  const node = el("bdi", { class: "key" });
  const cut = text.length > most;
  // Never between the halves of a character.
  const part = cut ? text.slice(0, most - 12).replace(/[\ud800-\udbff]$/, "").trimEnd() : text;
  append(node, part);
  if (cut) {
    node.append(el("span", { class: "mark" }, "…"));
    append(node, text.slice(-10).replace(/^[\udc00-\udfff]/, "").trimStart());
    node.title = plain(text.slice(0, 500));
  }
  return node;
}

function append(node, text) {
  if (text === "") return node.append(el("span", { class: "mark" }, "⟨empty⟩"));
  let from = 0;
  for (const odd of text.matchAll(ODD)) {
    node.append(text.slice(from, odd.index), el("span", { class: "mark" }, mark(odd[0])));
    from = odd.index + odd[0].length;
  }
  node.append(text.slice(from));
}

/** A key that the service has shortened, because it has more than 256 bytes. */
const SHORTENED = /^[^]{1,128}…[0-9a-f]{32}$/u;

/**
 * A key in an answer of the service.
 * @typedef {{key?: string, key_bytes?: string, key_hash?: string}} KeyOf
 */

/** Returns what an answer calls a key, as plain text. */
export const keyName = of => (of.key !== undefined && of.key !== null ? plain(of.key) : `bytes ${of.key_bytes ?? of.key_hash ?? "?"}`);

/** Returns a name that is the same for equal keys only. */
export const keyId = of => (of.key !== undefined && of.key !== null ? `k${of.key}` : `b${of.key_bytes ?? of.key_hash}`);

/** Returns why no call can name the key, or null. */
export function unnameable(of) {
  if (of.key === undefined || of.key === null) return "This key isn't text, so no call of this page can name it.";
  return SHORTENED.test(of.key) ? "This key is longer than 256 bytes, and the service shows only its beginning. Its owner knows the rest." : null;
}

/** Returns a name for a downloaded file: only letters that no file system interprets. */
export const fileName = (...parts) => parts.filter(part => part).map(part => part.replace(/[^A-Za-z0-9_-]+/g, "_").slice(0, 40)).join("-");

/** Returns what an override does, as a phrase. */
export function overrideText(to) {
  if (!to) return "no override";
  if (to.allow) return "allow all";
  if (to.block) return "block all";
  return to.times !== undefined ? `${to.times} times the numbers of the file` : to.policies.join(", ");
}
