/** On a phone, each row becomes a card. */
import { html } from "./html.js";

/** @typedef {import("./html.js").Children} Children */

/**
 * The first cell of a row is its heading. `kind`: a class that changes how the table looks on a phone.
 * @param {{
 *   caption: string,
 *   columns: { title: string, number?: boolean, kind?: string }[],
 *   rows: { key: string, cells: Children[] }[],
 *   kind?: string,
 * }} props
 */
export function Table({ caption, columns, rows, kind = "" }) {
  return html`<div class=${`table ${kind}`}>
    <table>
      <caption class="unseen">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((column) => html`<th scope="col" class=${classOf(column)}>${column.title}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ key, cells }) =>
            html`<tr key=${key}>
              ${cells.map((cell, i) => cellOf(columns[i], cell, i === 0))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** The cells have the title of their column, for narrow screens. */
function cellOf(column, content, isHeading) {
  return isHeading
    ? html`<th scope="row" data-title=${column.title}>${content}</th>`
    : html`<td data-title=${column.title} class=${classOf(column)}>${content}</td>`;
}

/** @param {{ number?: boolean, kind?: string }} column */
function classOf({ number, kind }) {
  return number ? "number" : kind;
}
