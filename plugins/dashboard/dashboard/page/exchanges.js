/** Shows requests that have ended, one per row. */
import { badge, h, row } from "./dom.js";
import * as format from "./format.js";
import { explanationDialog } from "./explanation-dialog.js";

export const exchangeColumns = [
  { title: "Time" },
  { title: "Request" },
  { title: "Result" },
  { title: "Duration", number: true },
  { title: "Charged", number: true },
  { title: "Key" },
];

/** `isPlatform`: true if the time is a button that opens the explanation. */
export function exchangeRow(exchange, isPlatform) {
  const { time, ms, method, route, status, code, request_id: id } = exchange;
  return row(exchangeColumns, [
    isPlatform && id !== undefined
      ? explanationButton(id, time)
      : h("span", {}, format.timeOfDay(time)),
    [
      h("b", {}, method),
      " ",
      h("span", { class: "path" }, route),
      " ",
      exchange.calls !== undefined &&
        h("span", { class: "quiet" }, format.callsText(exchange.calls)),
      exchange.gateway !== undefined && h("span", { class: "quiet" }, ` on ${exchange.gateway}`),
    ],
    [
      badge(meaning(status, code), status === 0 ? "client left" : String(status)),
      code !== undefined && h("span", { class: "quiet" }, format.reason(code)),
    ],
    format.duration(ms),
    exchange.used_cu_milli === undefined ? format.none : format.cuAligned(exchange.used_cu_milli),
    h("code", {}, shortId(exchange.key_id)),
  ]);
}

function explanationButton(id, time) {
  return h(
    "button",
    {
      type: "button",
      class: "link",
      "aria-label": `Explain the request at ${format.timeOfDay(time)}`,
      data: { focus: id },
      onclick: () => void explanationDialog(id),
    },
    format.timeOfDay(time),
  );
}

function meaning(status, code) {
  if (status >= 500) return "bad";
  if (status === 0) return "quiet";
  return code === undefined && status < 400 ? "ok" : "warn";
}

/** Returns the first digits of an id, which are enough to distinguish keys. */
function shortId(id) {
  return id === undefined ? format.none : id.slice(0, 12);
}
