import { Badge } from "./basics.js";
import { explain } from "./explanation.js";
import * as format from "./format.js";
import { html } from "./html.js";
import { linkTo } from "./router.js";
import { Table } from "./table.js";

const columns = [
  { title: "Time" },
  { title: "Request" },
  { title: "Result" },
  { title: "Duration", number: true },
  { title: "Charged", number: true },
  { title: "Key" },
];

/**
 * `ms`: its duration. `status`: 0 if the client disconnected before the answer.
 *
 * @typedef {object} Exchange
 * @property {string} time
 * @property {number} ms
 * @property {string} method
 * @property {string} route
 * @property {number} status
 * @property {string} [code]
 * @property {string} [reason]
 * @property {string} [upstream_failure]
 * @property {{ names: string[], items: number, failed: number }} [calls]
 * @property {string} [gateway]
 * @property {string} [request_id]
 * @property {number} [used_cu_milli]
 * @property {string} [key_id]
 * @property {string} [key_name]
 */

/**
 * The time of a request is a button that opens its explanation.
 * @param {{ exchanges: Exchange[] }} props
 */
export function ExchangeTable({ exchanges }) {
  return html`<${Table}
    caption="The latest requests, newest first"
    kind="feed"
    columns=${columns}
    rows=${exchanges.map((each) => exchangeRow(each))}
  />`;
}

/** @param {Exchange} exchange */
function exchangeRow(exchange) {
  const { time, ms, method, route, status, code, calls, gateway, request_id: id } = exchange;
  const { upstream_failure: failure } = exchange;
  const cells = [
    id !== undefined
      ? html`<${ExplanationButton} id=${id} time=${time} />`
      : html`<span>${format.timeOfDay(time)}</span>`,
    html`<b>${method}</b> <span class="path">${route}</span>${" "}
      ${calls !== undefined && html`<span class="quiet">${format.callsText(calls)}</span>`}
      ${gateway !== undefined && html`<span class="quiet"> on ${gateway}</span>`}`,
    html`<${Badge} meaning=${meaning(status, code)}>${status === 0 ? "client left" : status}<//>
      ${code !== undefined && html`<span class="quiet">${format.refusal(code, exchange.reason)}</span>`}
      ${failure !== undefined && html`<span class="quiet">${failure}</span>`}`,
    format.duration(ms),
    exchange.used_cu_milli === undefined ? format.none : format.cuAligned(exchange.used_cu_milli),
    keyOf(exchange),
  ];
  return { key: `${id} ${time} ${gateway}`, cells };
}

function ExplanationButton({ id, time }) {
  return html`<button
    type="button"
    class="link"
    aria-label=${`Explain the request at ${format.timeOfDay(time)}`}
    onClick=${() => explain(id)}
  >
    ${format.timeOfDay(time)}
  </button>`;
}

function meaning(status, code) {
  if (status >= 500) return "bad";
  if (status === 0) return "quiet";
  return code === undefined && status < 400 ? "ok" : "warn";
}

/** @param {Exchange} exchange */
function keyOf({ key_id: id, key_name: name }) {
  if (id === undefined) return format.none;
  return html`<a href=${linkTo("live", { key: id })} title=${id}>
    ${name === undefined || name === "" ? html`<code>${id.slice(0, 12)}</code>` : name}
  </a>`;
}
