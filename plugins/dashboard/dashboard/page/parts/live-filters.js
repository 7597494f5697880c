/** The filters are in the address of the view. */
import { SearchField } from "./fields.js";
import { html } from "./html.js";
import { filter, queryOf, setFilters } from "./router.js";

/** The text filters: name in the address, label, and placeholder. */
const texts = [
  ["key", "Key, by name or id", "Key"],
  ["route", "Route", "Route"],
  ["call", "JSON-RPC method, tool or model", "Method, tool…"],
  ["code", "Code of the refusal", "Code"],
  ["request", "Request id", "Request id"],
];

const statuses = [
  ["", "Any status"],
  ["2xx", "2xx: answered"],
  ["3xx", "3xx: redirected"],
  ["4xx", "4xx: refused"],
  ["5xx", "5xx: failed"],
  ["0", "Client left"],
];

const names = ["status", ...texts.map(([name]) => name)];

export function readFilters() {
  return queryOf(Object.fromEntries(names.map((name) => [name, filter(name)])));
}

/**
 * `filters`: the result of `readFilters`.
 * @param {{ filters: URLSearchParams }} props
 */
export function Filters({ filters }) {
  const status = filters.get("status") ?? "";
  const clear = () => setFilters(Object.fromEntries(names.map((name) => [name, undefined])));
  // An exact status can come from a link.
  const known = statuses.some(([each]) => each === status);
  const options = known ? statuses : [...statuses, [status, status]];
  return html`<div class="filters" role="search" aria-label="Filter requests">
    <select
      aria-label="Status"
      onChange=${({ currentTarget }) => setFilters({ status: currentTarget.value })}
    >
      ${options.map(
        ([each, text]) => html`<option value=${each} selected=${each === status}>${text}</option>`,
      )}
    </select>
    ${texts.map(
      ([name, label, placeholder]) =>
        html`<${SearchField}
          key=${name}
          label=${label}
          placeholder=${placeholder}
          value=${filters.get(name) ?? ""}
          search=${(text) => setFilters({ [name]: text })}
        />`,
    )}
    ${
      filters.size > 0 &&
      html`<button type="button" class="plain" onClick=${clear}>Clear filters</button>`
    }
  </div>`;
}
