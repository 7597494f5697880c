import {
  Badge,
  Bar,
  Bars,
  Empty,
  ErrorLine,
  Loading,
  Panel,
  RefusedFile,
  Swatch,
} from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { ExchangeTable } from "../parts/exchanges.js";
import * as format from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { Filters, readFilters } from "../parts/live-filters.js";
import { usePolled } from "../parts/poll.js";
import { linkTo } from "../parts/router.js";

/** @typedef {import("../parts/exchanges.js").Exchange} Exchange */

const everyMs = 2_000;
const lines = [
  ["Answered", "series-1"],
  ["Refused", "warn-area"],
  ["Failed", "bad-area"],
];

export function LiveView({ session }) {
  const isPlatform = session.scope === "platform";
  const filters = readFilters();
  const { data: now, error } = usePolled(filters.size === 0 ? "live" : `live?${filters}`, everyMs);
  const [paused, setPaused] = useState(/** @type {Exchange[] | undefined} */ (undefined));
  const exchanges = paused ?? now?.exchanges;
  const pause = html`<button
    type="button"
    class="plain"
    aria-pressed=${paused === undefined ? "false" : "true"}
    onClick=${() => setPaused(paused === undefined ? (now?.exchanges ?? []) : undefined)}
  >
    ${paused === undefined ? "Pause" : "Resume"}
  </button>`;
  const chart = useMemo(() => now && chartData(now), [now]);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <${RefusedFile} isRefused=${now?.reload_refused === true} />
    <${Status} now=${now} />
    <${Tiles} now=${now} isPlatform=${isPlatform} />
    <${Panel} title="Requests per 5 seconds, last 10 minutes" aside=${legend}>
      <${Chart} label="Requests of the last ten minutes: answered, refused, failed" data=${chart} />
    <//>
    <div class="split">
      <${Panel} title="Latest requests" aside=${pause}>
        <${Filters} filters=${filters} />
        <${Latest} exchanges=${exchanges} searched=${now?.searched} />
      <//>
      <${Panel} title="Refusals and failures by reason"
        ><${Refusals} refusals=${now?.refusals}
      /><//>
    </div>
  </div>`;
}

const legend = html`<p class="legend">
  ${lines.map(([name, colour]) => html`<span><${Swatch} colour=${colour} />${name}</span>`)}
</p>`;

function Status({ now }) {
  if (now === undefined || now.ready === undefined) return html`<p class="status" role="status" />`;
  const { ready, wrong, gateways, complete } = now;
  return html`<p class="status" role="status">
    <${Badge} meaning=${ready ? "ok" : "bad"}>${ready ? "Ready" : "Not ready"}<//>
    ${wrong.length > 0 && html`<${Badge} meaning="warn">${format.counted(wrong.length, "problem")}<//>`}
    <span>${wrong.length === 0 ? "All checks pass." : wrong.join("; ")}</span>
    ${
      gateways !== undefined && html`<span class="quiet">${gatewaysText(gateways, complete)}</span>`
    }
  </p>`;
}

function gatewaysText(gateways, isComplete) {
  if (!isComplete) return "Only this gateway: the database does not answer.";
  const answered = gateways.filter((gateway) => gateway.answered).length;
  return `${answered} of ${format.counted(gateways.length, "gateway")}`;
}

function Tiles({ now, isPlatform }) {
  return html`<div class="tiles">
    ${tiles(now, isPlatform).map(
      ([title, value, note]) =>
        html`<div class="tile">
          <span>${title}</span><strong>${value}</strong><small>${note}</small>
        </div>`,
    )}
  </div>`;
}

function tiles(now, isPlatform) {
  if (now === undefined) {
    const titles = ["Requests", "Latency", "Refused", isPlatform ? "In flight" : "Failed"];
    return titles.map((title) => [title, format.none, "…"]);
  }
  const all = sum(now.requests);
  const shareOf = (part) => [
    format.share(part, all),
    `${format.count(part)} of ${format.count(all)} in ten minutes`,
  ];
  const p95 = `median; 95% within ${format.duration(now.p95_ms)}`;
  return [
    // The last interval is incomplete and would look like a dip, so it is omitted.
    [
      "Requests",
      format.brief(sum(now.requests.slice(-13, -1)) / 60),
      "per second in the last minute",
    ],
    ["Latency", format.duration(now.p50_ms), now.p95_ms === undefined ? "no requests yet" : p95],
    ["Refused", ...shareOf(sum(now.refused))],
    isPlatform
      ? [
          "In flight",
          format.count(now.in_flight),
          `${format.count(now.totals.requests)} since the start`,
        ]
      : ["Failed", ...shareOf(sum(now.failed))],
  ];
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

function Latest({ exchanges, searched }) {
  if (exchanges === undefined) return html`<${Loading} />`;
  if (exchanges.length > 0) {
    return html`<${ExchangeTable} exchanges=${exchanges} />`;
  }
  if (searched > 0) {
    return html`<${Empty} title="No request matches the filters">
      ${format.counted(searched, "request")} ended while this page was open. New ones that match
      appear here.
    <//>`;
  }
  return html`<${Empty} title="No requests yet">
    Calls appear here as they end, while this page is open, and refused calls also from before.
  <//>`;
}

function Refusals({ refusals }) {
  if (refusals === undefined) return html`<${Loading} />`;
  if (refusals.length === 0) {
    return html`<${Empty} title="Nothing was refused">
      Refusals and failures are counted here by reason since the start of the gateway.
    <//>`;
  }
  const most = Math.max(1, ...refusals.map(({ recent }) => recent));
  return html`<${Bars}>
    ${refusals.map(
      ({ code, recent, total }) =>
        html`<${Bar}
          key=${code}
          fill=${recent / most}
          meaning=${code === "GATEWAY_INTERNAL_ERROR" ? "bad" : "warn"}
          name=${[
            html`<a href=${linkTo("live", { code })}>${format.reason(code)}</a>`,
            html`<code>${code}</code>`,
          ]}
          value=${format.count(recent)}
          note=${`${format.count(total)} in total`}
        />`,
    )}
  <//>`;
}

function sum(values) {
  return values.reduce((all, n) => all + n, 0);
}
