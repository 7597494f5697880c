import { html } from "./html.js";
import { setFilters } from "./router.js";

/**
 * `page`: from 0 on, as the filter `page` of the address. `orderedOnly`: number of rows that could be ordered, if the
 * list has more.
 * @param {{ page: number, hasMore: boolean, orderedOnly?: number }} props
 */
export function Pager({ page, hasMore, orderedOnly }) {
  if (page === 0 && !hasMore) return null;
  const open = (wanted) => setFilters({ page: wanted === 0 ? "" : String(wanted) });
  return html`<nav class="pager" aria-label="Pages">
    ${
      orderedOnly !== undefined &&
      html`<span class="quiet">Only the newest ${orderedOnly} were ordered. Use the search.</span>`
    }
    <button type="button" class="plain" disabled=${page === 0} onClick=${() => open(page - 1)}>
      Previous
    </button>
    <span class="quiet">Page ${page + 1}</span>
    <button type="button" class="plain" disabled=${!hasMore} onClick=${() => open(page + 1)}>
      Next
    </button>
  </nav>`;
}
