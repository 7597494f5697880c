import { html, useId, useEffect, useRef } from "./html.js";
import { useAnswer } from "./poll.js";
import { filter, setFilters } from "./router.js";

/** @typedef {import("./html.js").Children} Children */

/** Time after the last key press before a search begins. */
const typingMs = 250;

/**
 * `hint`: description of valid values. `control`: returns the control for these attributes.
 * @param {{ label: string, hint?: string, control: (attributes: object) => Children }} props
 */
export function Field({ label, hint, control }) {
  const id = useId();
  const describedBy = hint === undefined ? undefined : `${id}-hint`;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${control({ id, "aria-describedby": describedBy })}
    ${hint !== undefined && html`<small id=${describedBy} class="hint">${hint}</small>`}
  </div>`;
}

/** `options`: pairs of a value and its text. */
export function SelectField({ label, hint, name, options, value }) {
  const choices = options.map(
    ([each, text]) => html`<option value=${each} selected=${each === value}>${text}</option>`,
  );
  return html`<${Field}
    label=${label}
    hint=${hint}
    control=${(attributes) =>
      html`<select name=${name} ...${attributes}>
        ${choices}
      </select>`}
  />`;
}

/** All attributes except the label and the hint are those of the input. */
export function InputField({ label, hint, ...input }) {
  return html`<${Field}
    label=${label}
    hint=${hint}
    control=${(attributes) => html`<input autocomplete="off" ...${input} ...${attributes} />`}
  />`;
}

/** A field for an amount of credit. `milli`: its first value in milli-CU. The other attributes are those of the input. */
export function CreditField({ milli, ...input }) {
  const defaultValue = milli === undefined ? undefined : milli / 1000;
  return html`<${InputField}
    type="number"
    min="0"
    step="0.001"
    inputmode="decimal"
    defaultValue=${defaultValue}
    ...${input}
  />`;
}

/** Returns the amount of a `CreditField` in milli-CU. Undefined if it is empty. */
export function readMilli(form, name) {
  const text = String(form.get(name) ?? "").trim();
  return text === "" ? undefined : Math.round(Number(text) * 1000);
}

/**
 * Buttons that choose the filter `name` of the address. `reset`: the filters that a choice changes as well.
 * @param {{
 *   label: string,
 *   name: string,
 *   options: string[][],
 *   chosen: string,
 *   reset?: Record<string, string>,
 * }} props
 */
export function Choice({ label, name, options, chosen, reset = {} }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(
      ([value, text]) =>
        html`<button
          type="button"
          aria-pressed=${value === chosen ? "true" : "false"}
          onClick=${() => setFilters({ [name]: value, ...reset })}
        >
          ${text}
        </button>`,
    )}
  </div>`;
}

const orders = [
  ["newest", "Newest first"],
  ["use", "Most used first"],
];

export function OrderChoice() {
  return html`<${Choice}
    label="Order"
    name="sort"
    options=${orders}
    chosen=${filter("sort", "newest")}
    reset=${{ page: "" }}
  />`;
}

/** `search`: called shortly after the last key press. `value`: when it changes otherwise, the field shows it. */
export function SearchField({ label, placeholder, value, search }) {
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (field.current !== null && field.current.value.trim() !== value) field.current.value = value;
  }, [value]);
  return html`<input
    type="search"
    placeholder=${placeholder}
    aria-label=${label}
    maxlength="100"
    ref=${field}
    onInput=${({ currentTarget }) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => search(currentTarget.value.trim()), typingMs);
    }}
  />`;
}

/**
 * The view's own polling shows the error if they cannot be read. All attributes except `first`, the text of the first
 * choice, are those of the select element.
 * @param {{ first?: string, value?: string, [attribute: string]: unknown }} props
 */
export function WorkspaceSelect({ first = "All workspaces", value = "", ...attributes }) {
  const { data } = useAnswer("workspaces?choices=1");
  const workspaces = data?.workspaces ?? [];
  const isMissing = value !== "" && workspaces.every(({ id }) => id !== value);
  return html`<select ...${attributes}>
    <option value="">${first}</option>
    ${isMissing && html`<option value=${value} selected>${value.slice(0, 11)}</option>`}
    ${workspaces.map(
      ({ id, name }) =>
        html`<option value=${id} selected=${id === value}>${name} (${id.slice(0, 11)})</option>`,
    )}
  </select>`;
}
