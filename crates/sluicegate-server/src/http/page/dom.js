/** Elements of the page. Text from the service becomes text nodes, never markup. */

/**
 * Returns a new element. Names that begin with `on` are listeners; null, undefined and false leave an attribute out.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string|number|null|undefined)} children
 * @returns {any}
 */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

/** Sets the text of an element, if it differs: an equal text must not cost a layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute, if it differs. */
export function setAttribute(node, name, value) {
  if (value === null || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** @type {WeakMap<Element, Map<string, any>>} */
const rowsOf = new WeakMap();

/**
 * Makes the children of an element those of a list, and reuses the elements of earlier items.
 * @template T
 * @param {Element} parent
 * @param {T[]} items
 * @param {(item: T) => string} nameOf names an item across calls
 * @param {() => {node: Element, update: (item: T) => void}} make
 */
export function fill(parent, items, nameOf, make) {
  const old = rowsOf.get(parent) ?? new Map();
  const rows = new Map();
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = nameOf(item);
    if (rows.has(name)) continue;
    const row = old.get(name) ?? make();
    row.update(item);
    rows.set(name, row);
    old.delete(name);
    if (row.node === place) place = place.nextElementSibling;
    else parent.insertBefore(row.node, place);
  }
  for (const row of old.values()) row.node.remove();
  rowsOf.set(parent, rows);
}

/** Returns a table with these columns: a text, or a text, a class and a title. */
export function table(caption, columns, body = el("tbody")) {
  const heads = columns.map(column => {
    const [text, name, title] = [column].flat();
    return el("th", { scope: "col", class: name, title }, text);
  });
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, el("tr", {}, ...heads)), body));
}

/** Returns a field with its label. */
export function field(label, input, help) {
  return el("label", { class: "field" }, el("span", {}, label), input, help && el("small", {}, help));
}

/** Returns a list to choose from. Options are texts, or pairs of a value and a text. */
export function select(options, attributes = {}) {
  const list = el("select", attributes);
  list.append(...options.map(option => {
    const [value, text] = [option, option].flat();
    return new Option(text, value);
  }));
  return list;
}

export const button = (text, onclick, attributes = {}) => el("button", { type: "button", onclick, ...attributes }, text);

/** Returns a call of `action` that waits until there was no other one for `ms`. */
export function settled(action, ms = 250) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}
