/** Why a key is allowed or denied, from `/v1/explain`. */

import { el } from "./dom.js";
import { lineLink } from "./links.js";
import { plain } from "./text.js";

const WHENCE = { file: "the file", override: "an override", default: "the default", request: "the request" };

function numberText(number) {
  const place = number.from === "file" && number.line !== undefined && number.line !== null
    ? lineLink(number.file, number.line) : WHENCE[number.from] ?? plain(String(number.from ?? ""));
  return el("li", {}, `${plain(String(number.name))} `, el("b", {}, plain(String(number.value))), " from ", place);
}

/** Returns the reasons as a list. */
export function reasons(answer) {
  const items = answer.because.map(reason => el("li", {},
    el("span", { class: "tag" }, plain(reason.kind)), " ",
    reason.limit ? el("b", {}, `${plain(reason.limit)}${reason.policy ? ` / ${plain(reason.policy)}` : ""}`) : "", " ",
    plain(reason.text), " ",
    reason.from === "file" && reason.line ? lineLink(reason.file, reason.line) : reason.from && reason.from !== "file" ? el("span", { class: "soft" }, `from ${WHENCE[reason.from] ?? plain(reason.from)}`) : "",
    reason.numbers?.length ? el("ul", { class: "numbers" }, ...reason.numbers.map(numberText)) : ""));
  return el("ol", { class: "reasons" }, ...items);
}
