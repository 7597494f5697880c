/**
 * The address of the open view, after the `#`: the name of the view, further parts, and its filters, as in
 * `#/live?status=5xx`. The back button, bookmarks and links in documents therefore work.
 */
import { signal } from "./html.js";

/**
 * The open address. `view`: name of the view, empty for the first one. `rest`: the parts of the path after it. `query`:
 * the filters.
 * @type {import("../lib/signals.js").Signal<{ view: string, rest: string[], query: URLSearchParams }>}
 */
export const place = signal(read());

addEventListener("hashchange", () => {
  // The skip link points into the open view.
  if (location.hash !== "#content") place.value = read();
});

function read() {
  const [path = "", query = ""] = location.hash.slice(1).split("?", 2);
  const [view = "", ...rest] = path
    .split("/")
    .filter((part) => part !== "")
    .map(decoded);
  return { view, rest, query: new URLSearchParams(query) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Returns a link to a view. Filters that are undefined or empty are left out.
 * @param {string} view
 * @param {Record<string, string | undefined>} [filters]
 * @param {string[]} rest
 */
export function linkTo(view, filters = {}, ...rest) {
  const path = [view, ...rest].map(encodeURIComponent).join("/");
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) {
    if (value !== undefined && value !== "") query.set(name, value);
  }
  return `#/${path}${query.size === 0 ? "" : `?${query}`}`;
}

/**
 * Changes filters of the open view in its address. The others stay. The back button returns to the previous view, and
 * not to the previous filter.
 * @param {Record<string, string | undefined>} filters
 */
export function setFilters(filters) {
  const { view, rest, query } = place.peek();
  const merged = { ...Object.fromEntries(query), ...filters };
  history.replaceState(null, "", linkTo(view, merged, ...rest));
  place.value = read();
}

/** Opens another view in place of the one in the address, for example if that does not exist. Its filters stay. */
export function replaceView(view) {
  const { query } = place.peek();
  history.replaceState(null, "", linkTo(view, Object.fromEntries(query)));
  place.value = read();
}

/** Returns the filter of this name in the address, or `fallback`. */
export function filter(name, fallback = "") {
  return place.value.query.get(name) ?? fallback;
}
