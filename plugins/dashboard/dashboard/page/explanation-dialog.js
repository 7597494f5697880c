/** Shows the explanation of a request, like `sluice explain`: the outcome and the time of each step. */
import { ask, ApiError } from "./api.js";
import { openDialog } from "./dialog.js";
import { badge, h, row, table } from "./dom.js";
import * as format from "./format.js";

const columns = [{ title: "Step" }, { title: "Result" }, { title: "Duration", number: true }];

/** Opens a dialog for the request with this id. */
export async function explanationDialog(requestId) {
  try {
    const { exchanges } = await ask(`explain?id=${encodeURIComponent(requestId)}`);
    show(`${exchanges[0].method} ${exchanges[0].route}`, ...exchanges.flatMap(explanation));
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const text =
      error.status === 404 ? "This request is no longer available." : `${error.message}.`;
    show("Request", h("p", {}, text));
  }
}

function show(title, ...content) {
  const dialog = openDialog(
    title,
    ...content,
    h(
      "div",
      { class: "dialog-end" },
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close"),
    ),
  );
  // The browser would focus the button at the end and scroll a long explanation down to it.
  dialog.tabIndex = -1;
  dialog.focus();
  dialog.scrollTop = 0;
}

function explanation(exchange) {
  const { status, code, outcome, ms, at, steps, limit, calls } = exchange;
  const { element } = table(
    "Steps, from the top of the list to the surface",
    columns,
    steps.map(stepRow),
  );
  element.classList.add("steps");
  return [
    h(
      "dl",
      { class: "facts story" },
      fact("Response", `${status}${code === undefined ? "" : `, ${format.reason(code)}`}`),
      fact("Ended", outcome ?? "not yet"),
      fact("At", format.timeOfDay(at)),
      fact("Duration", format.duration(ms)),
      fact("Request id", h("code", {}, exchange.request_id)),
      exchange.replica !== undefined && fact("Gateway", exchange.replica),
      exchange.key_id !== undefined && fact("Key", h("code", {}, exchange.key_id)),
      calls !== undefined && fact("Called", format.callsText(calls), "wide"),
      limit !== undefined && fact("Limit", limitText(limit), "wide"),
    ),
    element,
  ];
}

function fact(name, value, kind) {
  return h("div", { class: kind }, h("dt", {}, name), h("dd", {}, value));
}

function limitText({ scope, unit, used, limit, clears_at: clearsAt }) {
  const amounts =
    unit === "milli-CU"
      ? `${format.cu(used)} of ${format.cu(limit)}`
      : `${format.count(used)} of ${format.counted(limit, "request")}`;
  const room = clearsAt === undefined ? "" : `, has room again at ${format.instant(clearsAt)}`;
  return `${scope}: ${amounts}${room}`;
}

const meanings = {
  passed: "quiet",
  replied: "ok",
  refused: "warn",
  "would refuse": "warn",
  failed: "bad",
  "failed, skipped": "bad",
};

function stepRow({ step, did, reason, ms }) {
  return row(columns, [
    step,
    [
      badge(meanings[did] ?? "quiet", did),
      reason !== undefined && h("span", { class: "quiet" }, reason),
    ],
    format.duration(ms),
  ]);
}
