/** Single requests that have ended, a row each. */
import { badge, h, row } from "./dom.js";
import * as format from "./format.js";
import { explanationDialog } from "./explanation-dialog.js";

export const exchangeColumns = [
  { title: "Time" },
  { title: "Request" },
  { title: "Result" },
  { title: "Took", number: true },
  { title: "Charged", number: true },
  { title: "Key" },
];

/** `isPlatform`: its time opens its story. */
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
    ],
    [
      badge(meaning(status, code), status === 0 ? "left" : String(status)),
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
      "aria-label": `What became of the request at ${format.timeOfDay(time)}`,
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

/** The first digits tell keys apart. */
function shortId(id) {
  return id === undefined ? format.none : id.slice(0, 12);
}
