/** Small charts in SVG, each with a text that says the same. */

import { setAttribute } from "./dom.js";
import { count, plural } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
/** The steps that a chart has: 15 min of 10 s. */
export const STEPS = 90;
const HEIGHT = 24;

function svg(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function frame(kind, ...parts) {
  const node = svg("svg", { class: `chart ${kind}`, viewBox: `0 0 ${STEPS} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  node.append(...parts);
  return node;
}

const sum = numbers => numbers.reduce((all, number) => all + (number ?? 0), 0);
const round = number => Math.round(number * 100) / 100;

/**
 * Returns a line over time. `update` takes the numbers, oldest first, with null where one is unknown.
 * @param {string} name
 * @param {(number: number) => string} text
 */
export function line(name, text) {
  const path = svg("path", { class: "line", "vector-effect": "non-scaling-stroke" });
  const node = frame("spark", path);
  return {
    node,
    update(numbers) {
      const known = numbers.filter(number => number !== null);
      const top = Math.max(1e-9, ...known);
      let pen = "M";
      let d = "";
      numbers.forEach((number, index) => {
        if (number === null) {
          pen = "M";
          return;
        }
        d += `${pen}${STEPS - numbers.length + index} ${round(HEIGHT - 1 - (number / top) * (HEIGHT - 2))}`;
        // A lone step is a dot.
        if (pen === "M") d += "h.6";
        pen = "L";
      });
      setAttribute(path, "d", d);
      const last = known.at(-1);
      setAttribute(node, "aria-label", known.length
        ? `${name} over 15 min: now ${text(last)}, highest ${text(Math.max(...known))}, lowest ${text(Math.min(...known))}`
        : `${name}: no history yet`);
    },
  };
}

/** Returns bars of allowed, denied and shadow-denied requests over time. */
export function stack(name) {
  const allowed = svg("path", { class: "allowed" });
  const shadow = svg("path", { class: "shadow", fill: "url(#hatch)" });
  const denied = svg("path", { class: "denied" });
  const node = frame("stack", allowed, shadow, denied);
  return {
    node,
    /** @param {{allowed: number[], denied: number[], shadow_denied: number[]}} history */
    update(history) {
      const steps = history.allowed.length;
      const at = (list, index) => list?.[index] ?? 0;
      let top = 1e-9;
      for (let index = 0; index < steps; index += 1) {
        top = Math.max(top, at(history.allowed, index) + at(history.denied, index));
      }
      const paths = { allowed: "", shadow: "", denied: "" };
      for (let index = 0; index < steps; index += 1) {
        const x = STEPS - steps + index;
        const scale = number => (number / top) * HEIGHT;
        // A shadow denial was allowed, so its part is taken from the allowed ones.
        const inShadow = Math.min(at(history.shadow_denied, index), at(history.allowed, index));
        let y = HEIGHT;
        for (const [kind, number] of [["allowed", at(history.allowed, index) - inShadow], ["shadow", inShadow], ["denied", at(history.denied, index)]]) {
          if (number <= 0) continue;
          // One denial among a million must still be seen.
          const height = kind === "allowed" ? scale(number) : Math.max(1.5, scale(number));
          y -= height;
          paths[kind] += `M${x} ${round(Math.max(0, y))}h.85v${round(height)}h-.85z`;
        }
      }
      setAttribute(allowed, "d", paths.allowed);
      setAttribute(shadow, "d", paths.shadow);
      setAttribute(denied, "d", paths.denied);
      const shadows = sum(history.shadow_denied ?? []);
      setAttribute(node, "aria-label",
        `${name}, last 15 min: ${count(sum(history.allowed))} allowed, ${count(sum(history.denied))} denied${shadows ? `, ${count(shadows)} denied in shadow` : ""}`);
    },
  };
}

/** Returns a bar of how much of a policy's capacity a key has used. */
export function gauge(used, all, label) {
  const share = all ? Math.min(1, used / all) : 0;
  const node = svg("svg", { class: "gauge", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": label });
  node.append(
    svg("rect", { class: "ground", width: 100, height: 8 }),
    svg("rect", { class: share >= 1 ? "full" : "used", width: round(share * 100), height: 8 }));
  return node;
}

/** Returns bars of a simulation: what was denied, and what would be. */
export function timeline(of) {
  const steps = of.denied.length || 1;
  const top = Math.max(1, ...of.denied, ...of.was_denied);
  const node = svg("svg", { class: "chart timeline", viewBox: `0 0 ${steps} 40`, preserveAspectRatio: "none", role: "img",
    "aria-label": `${plural(sum(of.newly_denied), "newly denied request")}, ${count(sum(of.denied))} denied in all; ${count(sum(of.was_denied))} were denied` });
  const bars = (numbers, offset, width) => numbers
    .map((number, index) => (number > 0 ? `M${index + offset} 40h${width}v-${round(Math.max(1, (number / top) * 40))}h-${width}z` : "")).join("");
  node.append(
    svg("path", { class: "was", d: bars(of.was_denied, 0.05, 0.4) }),
    svg("path", { class: "denied", d: bars(of.denied, 0.5, 0.4) }));
  return node;
}
