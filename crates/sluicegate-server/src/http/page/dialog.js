/** Dialogs in the page, and notices of what was done. */

import { button, el, field } from "./dom.js";

const dialog = () => /** @type {HTMLDialogElement} */ (document.getElementById("dialog"));

/**
 * Opens the dialog, and returns what `submit` returned, or null if it was closed.
 * @param {{title: string, content: Node[], verb: string, danger?: boolean, submit: () => Promise<any>}} options
 * @returns {Promise<any>}
 */
export function open({ title, content, verb, danger, submit }) {
  const box = dialog();
  const problem = el("p", { class: "problem", role: "alert" });
  const confirm = el("button", { class: danger ? "danger" : "primary" }, verb);
  return new Promise(resolve => {
    let result = null;
    const form = el("form", {
      onsubmit: async event => {
        event.preventDefault();
        if (confirm.disabled) return;
        problem.textContent = "";
        confirm.disabled = true;
        try {
          result = await submit();
          box.close();
        } catch (error) {
          problem.textContent = error.message;
        }
        confirm.disabled = false;
      },
    },
    el("h2", { id: "dialog-title" }, title), ...content, problem,
    el("p", { class: "buttons" }, confirm, button("Cancel", () => box.close())));
    box.replaceChildren(form);
    // The event comes later than the end, when the next dialog may be open already.
    const closed = () => {
      if (box.firstChild === form) {
        if (box.open) return;
        box.replaceChildren();
      }
      box.removeEventListener("close", closed);
      resolve(result);
    };
    box.addEventListener("close", closed);
    box.showModal();
    (form.querySelector("input, select, textarea") ?? confirm).focus();
  });
}

/** Asks for a token. `problem` says what is wrong with the last one. */
export function askForToken(problem) {
  const input = el("input", { type: "password", autocomplete: "off", required: true });
  return open({
    title: "Token",
    content: [
      el("p", {}, "The service wants the admin token, or that of a client that may read. This tab keeps it until it is closed."),
      problem && el("p", { class: "problem" }, problem),
      field("Token", input),
    ].filter(node => node),
    verb: "Use the token",
    submit: async () => input.value.trim() || null,
  });
}

/** The number of notices that stay. */
const NOTICES = 3;

/**
 * Says what was done. `undo` takes it back, and returns what it did.
 * @param {(string|Node)[]} words
 * @param {(() => Promise<(string|Node)[]>)|null} undo
 */
export function notify(words, undo = null) {
  const region = document.getElementById("notices");
  const close = () => {
    // The focus must not fall to the top of the page.
    if (note.contains(document.activeElement)) document.getElementById("main").focus({ preventScroll: true });
    note.remove();
  };
  const undoing = undo && button("Undo", async () => {
    undoing.disabled = true;
    try {
      notify(await undo());
      close();
    } catch (error) {
      undoing.disabled = false;
      problem.textContent = ` ${error.message}`;
    }
  });
  const problem = el("span", { class: "problem" });
  const note = el("div", { class: "notice" }, el("p", {}, ...words, problem), undoing, button("Dismiss", close, { class: "plain" }));
  region.append(note);
  while (region.children.length > NOTICES) region.firstElementChild.remove();
}
