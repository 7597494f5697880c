/** Creates elements. Text is never parsed as markup. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} [attributes] `class`, `on…` listeners, `data…` in camel case; undefined and false
 * are left out
 * @param {...(Node | string | number | undefined | false)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  set(element, attributes);
  element.append(...children.filter(isShown).map(node));
  return element;
}

const svgNamespace = "http://www.w3.org/2000/svg";

/** Creates a line icon of 16 by 16 pixels. */
export function icon(path) {
  const svg = document.createElementNS(svgNamespace, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(svgNamespace, "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

/**
 * @template T
 * @param {T | undefined | false} child
 * @returns {child is T}
 */
function isShown(child) {
  return child !== undefined && child !== false;
}

function node(child) {
  return child instanceof Node ? child : document.createTextNode(String(child));
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "fill") element.style.setProperty("--fill", String(value));
    else if (name === "swatch") element.style.setProperty("--swatch", `var(--series-${value})`);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * Replaces the children of `parent`. A new element gets the focus if it has the same `data-focus` as the focused one.
 * @param {HTMLElement} parent
 * @param {...(Node | string | false | undefined)} children
 */
export function replace(parent, ...children) {
  const active = document.activeElement;
  const isWithin = active instanceof HTMLElement && parent.contains(active);
  const focus = isWithin ? active.dataset.focus : undefined;
  parent.replaceChildren(...children.filter(isShown));
  if (focus === undefined) return;
  for (const each of parent.querySelectorAll("[data-focus]")) {
    if (each instanceof HTMLElement && each.dataset.focus === focus)
      each.focus({ preventScroll: true });
  }
}

/**
 * Creates a section with a heading. `aside`: element next to the heading.
 * @param {string} title
 * @param {{ aside?: Node, id?: string }} options
 * @param {...(Node | false)} children
 */
export function panel(title, { aside, id }, ...children) {
  const heading = h("h2", { id }, title);
  const labelled = id === undefined ? {} : { "aria-labelledby": id };
  return h(
    "section",
    { class: "panel", ...labelled },
    h("div", { class: "panel-head" }, heading, aside),
    ...children,
  );
}

/** Creates the text that is shown if there are no data yet. */
export function empty(title, text) {
  return h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, text));
}

/** Creates a coloured word. `meaning`: `ok`, `warn`, `bad` or `quiet`. */
export function badge(meaning, text) {
  return h("span", { class: `badge ${meaning}` }, text);
}

/**
 * Creates a table of data with a caption for screen readers.
 * @param {{ title: string, number?: boolean, kind?: string }[]} columns
 */
export function table(caption, columns, rows) {
  const head = columns.map((column) =>
    h("th", { scope: "col", class: classOf(column) }, column.title),
  );
  const body = h("tbody", {}, ...rows);
  const element = h(
    "table",
    {},
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, ...head)),
    body,
  );
  return { element: h("div", { class: "table" }, element), body };
}

/** Creates a row whose cells have the title of their column, for narrow screens. */
export function row(columns, cells, attributes = {}) {
  return h(
    "tr",
    attributes,
    ...cells.map((cell, i) => {
      const column = columns[i];
      const data = { title: column.title };
      const content = Array.isArray(cell) ? cell : [cell];
      return i === 0
        ? h("th", { scope: "row", data }, ...content)
        : h("td", { data, class: classOf(column) }, ...content);
    }),
  );
}

/** @param {{ number?: boolean, kind?: string }} column */
function classOf({ number, kind }) {
  return number ? "number" : kind;
}

/** Creates a group of buttons of which one is selected. */
export function choice(label, options, chosen, choose) {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": value === chosen ? "true" : "false",
        data: { focus: `${label} ${value}` },
        onclick() {
          for (const each of buttons) each.setAttribute("aria-pressed", String(each === this));
          choose(value);
        },
      },
      text,
    ),
  );
  return h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
}
