/** The address of the open view is after the `#`, so that the back button, bookmarks and links in documents work. */
import { signal } from "./html.js";

/**
 * `view`: empty for the first one. `rest`: further parts of the path. `query`: filters, as in `#/live?status=5xx`.
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
 * Values that are undefined or empty are left out.
 * @param {Record<string, string | undefined>} values
 */
export function queryOf(values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== "") query.set(name, value);
  }
  return query;
}

/**
 * @param {string} view
 * @param {Record<string, string | undefined>} [filters]
 * @param {string[]} rest
 */
export function linkTo(view, filters = {}, ...rest) {
  const path = [view, ...rest].map(encodeURIComponent).join("/");
  const query = queryOf(filters);
  return `#/${path}${query.size === 0 ? "" : `?${query}`}`;
}

/**
 * The other filters stay. The back button returns to the previous view, and not to the previous filter.
 * @param {Record<string, string | undefined>} filters
 */
export function setFilters(filters) {
  const { view, rest, query } = place.peek();
  const merged = { ...Object.fromEntries(query), ...filters };
  history.replaceState(null, "", linkTo(view, merged, ...rest));
  place.value = read();
}

/** Called if the view in the address does not exist. The filters stay. */
export function replaceView(view) {
  const { query } = place.peek();
  history.replaceState(null, "", linkTo(view, Object.fromEntries(query)));
  place.value = read();
}

export function filter(name, fallback = "") {
  return place.value.query.get(name) ?? fallback;
}
