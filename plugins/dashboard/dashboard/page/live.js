/** The view Live: the current activity. */
import { poll } from "./api.js";
import { stackedBars, swatch } from "./chart.js";
import { badge, empty, h, panel, replace, table } from "./dom.js";
import { exchangeColumns, exchangeRow } from "./exchanges.js";
import * as format from "./format.js";
import { errorLine } from "./error-line.js";

const everyMs = 2_000;
const lines = [
  ["Answered", "series-1"],
  ["Refused", "warn-area"],
  ["Failed", "bad-area"],
];

export function liveView(session) {
  const isPlatform = session.scope === "platform";
  const error = errorLine();
  const tiles = {
    rate: tile("Requests", "per second in the last minute"),
    latency: tile("Latency", "median of the latest requests"),
    refused: tile("Refused", "of the last ten minutes"),
    last: isPlatform ? tile("In flight", "now") : tile("Failed", "of the last ten minutes"),
  };
  const chart = stackedBars("Requests of the last ten minutes: answered, refused, failed");
  const reasons = h("div", {}, loading());
  const { element: latest, body } = table("The latest requests, newest first", exchangeColumns, []);
  const quiet = h("div", {}, loading());
  latest.classList.add("feed");
  latest.hidden = true;
  let paused = false;
  const pause = h(
    "button",
    {
      type: "button",
      class: "plain",
      "aria-pressed": "false",
      onclick() {
        paused = !paused;
        pause.setAttribute("aria-pressed", String(paused));
        pause.textContent = paused ? "Resume" : "Pause";
      },
    },
    "Pause",
  );
  const status = h("p", { class: "status", role: "status" });

  const took = (now) => {
    showStatus(status, now);
    showTiles(tiles, now, session);
    chart.set(chartData(now));
    replace(reasons, refusalList(now.refusals));
    if (paused) return;
    latest.hidden = now.exchanges.length === 0;
    quiet.hidden = !latest.hidden;
    replace(
      quiet,
      empty("No requests yet", "Calls appear here as they end, while this page is open."),
    );
    replace(body, ...now.exchanges.slice(0, 25).map((each) => exchangeRow(each, isPlatform)));
  };
  const polling = poll(everyMs, () => "live", took, error.show);
  const legend = lines.map(([name, colour]) => h("span", {}, swatch(colour), name));
  return {
    element: h(
      "div",
      { class: "view" },
      error.element,
      status,
      h("div", { class: "tiles" }, ...Object.values(tiles).map(({ element }) => element)),
      panel(
        "Requests, last 10 minutes",
        { aside: h("p", { class: "legend" }, ...legend) },
        chart.element,
      ),
      h(
        "div",
        { class: "split" },
        panel("Latest requests", { aside: pause }, quiet, latest),
        panel("Refusals by reason", {}, reasons),
      ),
    ),
    stop() {
      polling.stop();
      chart.stop();
    },
  };
}

function tile(title, note) {
  const value = h("strong", {}, format.none);
  const detail = h("small", {}, note);
  return {
    element: h("div", { class: "tile" }, h("span", {}, title), value, detail),
    set(text, more) {
      value.textContent = text;
      if (more !== undefined) detail.textContent = more;
    },
  };
}

function showStatus(status, { ready, wrong, gateways, complete }) {
  if (ready === undefined) {
    status.hidden = true;
    return;
  }
  replace(
    status,
    badge(ready ? (wrong.length === 0 ? "ok" : "warn") : "bad", ready ? "Ready" : "Not ready"),
    h("span", {}, wrong.length === 0 ? "All checks pass." : wrong.join("; ")),
    gateways !== undefined && h("span", { class: "quiet" }, gatewaysText(gateways, complete)),
  );
}

/** Returns a text that says which gateways are included. */
function gatewaysText(gateways, isComplete) {
  if (!isComplete) return "Only this gateway: the database does not answer.";
  const answered = gateways.filter((gateway) => gateway.answered).length;
  return `${answered} of ${format.counted(gateways.length, "gateway")}`;
}

function showTiles(tiles, now, session) {
  // The last interval is incomplete and would look like a dip, so it is left out.
  const minute = sum(now.requests.slice(-13, -1));
  tiles.rate.set(format.brief(minute / 60));
  const half = now.p50_ms;
  const most = now.p95_ms === undefined ? "" : `median; 95% within ${format.duration(now.p95_ms)}`;
  tiles.latency.set(format.duration(half), most === "" ? "no requests yet" : most);
  const all = sum(now.requests);
  const refused = sum(now.refused);
  tiles.refused.set(
    format.share(refused, all),
    `${format.count(refused)} of ${format.count(all)} in ten minutes`,
  );
  if (session.scope === "platform") {
    tiles.last.set(
      format.count(now.in_flight),
      `${format.count(now.totals.requests)} since the start`,
    );
  } else {
    const failed = sum(now.failed);
    tiles.last.set(
      format.share(failed, all),
      `${format.count(failed)} of ${format.count(all)} in ten minutes`,
    );
  }
}

function chartData(now) {
  const { requests, refused, failed } = now;
  const stepMs = now.step_seconds * 1000;
  const newest = Math.floor(Date.parse(now.now) / stepMs) * stepMs;
  // A 503 is both a refusal and a failure. It is shown with the failures.
  const refusedOnly = refused.map((n, i) => Math.max(0, Math.min(n, requests[i] - failed[i])));
  const answered = requests.map((n, i) => Math.max(0, n - refusedOnly[i] - failed[i]));
  return {
    from: new Date(newest - (requests.length - 1) * stepMs).toISOString(),
    stepSeconds: now.step_seconds,
    unit: (n) => (Number.isInteger(n) ? format.brief(n) : ""),
    lines: [answered, refusedOnly, failed].map((values, i) => ({
      label: lines[i][0],
      colour: lines[i][1],
      values,
    })),
  };
}

function refusalList(refusals) {
  if (refusals.length === 0) {
    return empty(
      "Nothing was refused",
      "Refusals are counted here by reason since the start of the gateway.",
    );
  }
  const most = Math.max(1, ...refusals.map(({ recent }) => recent));
  return h(
    "ul",
    { class: "bars" },
    ...refusals.map(({ code, recent, total }) =>
      h(
        "li",
        { fill: recent / most, class: code === "GATEWAY_INTERNAL_ERROR" ? "bad" : "warn" },
        h("span", {}, format.reason(code), h("code", {}, code)),
        h(
          "span",
          { class: "number" },
          h("b", {}, format.count(recent)),
          h("small", {}, `${format.count(total)} in total`),
        ),
      ),
    ),
  );
}

function loading() {
  return h("p", { class: "loading" }, "Loading…");
}

function sum(values) {
  return values.reduce((all, n) => all + n, 0);
}
