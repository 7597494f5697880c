import { Badge, Fact, Facts, Loading } from "./basics.js";
import { Dialog, openDialog } from "./dialog.js";
import * as format from "./format.js";
import { html } from "./html.js";
import { useAnswer } from "./poll.js";
import { Table } from "./table.js";

const columns = [{ title: "Step" }, { title: "Result" }, { title: "Duration", number: true }];

export function explain(requestId) {
  openDialog(html`<${ExplanationDialog} requestId=${requestId} />`);
}

function ExplanationDialog({ requestId }) {
  const { data, error } = useAnswer(`explain?id=${encodeURIComponent(requestId)}`);
  const [first] = data?.exchanges ?? [];
  const title = first === undefined ? "Request" : `${first.method} ${first.route}`;
  return html`<${Dialog} title=${title} fromTop>
    ${(close) => html`
      <${Explanation} exchanges=${data?.exchanges} error=${error} />
      <div class="dialog-end">
        <button type="button" class="plain" onClick=${close}>Close</button>
      </div>
    `}
  <//>`;
}

/** `exchanges`: undefined until they have been read. */
export function Explanation({ exchanges, error }) {
  if (error !== undefined) {
    return html`<p>
      ${error.status === 404 ? "This request is no longer available." : `${error.message}.`}
    </p>`;
  }
  if (exchanges === undefined) return html`<${Loading} />`;
  return exchanges.map((exchange) => html`<${Exchange} exchange=${exchange} />`);
}

function Exchange({ exchange }) {
  const { status, code, outcome, ms, at, steps, limit, calls, replica, key_id: key } = exchange;
  const { upstream_failure: failure } = exchange;
  return html`<${Facts} class="story">
      <${Fact} name="Response"
        >${status}${code !== undefined && `, ${format.refusal(code, exchange.reason)}`}<//
      >
      <${Fact} name="Ended">${outcome ?? "not yet"}<//>
      <${Fact} name="At">${format.timeOfDay(at)}<//>
      <${Fact} name="Duration">${format.duration(ms)}<//>
      <${Fact} name="Request id"><code>${exchange.request_id}</code><//>
      ${replica !== undefined && html`<${Fact} name="Gateway">${replica}<//>`}
      ${key !== undefined && html`<${Fact} name="Key"><code>${key}</code><//>`}
      ${
        calls !== undefined &&
        html`<${Fact} name="Called" class="wide">${format.callsText(calls)}<//>`
      }
      ${failure !== undefined && html`<${Fact} name="Backend" class="wide">${failureLine(exchange)}<//>`}
      ${limit !== undefined && html`<${Fact} name="Limit" class="wide">${limitText(limit)}<//>`}
    <//>
    <${Table}
      caption="Steps, from the top of the list to the surface"
      kind="steps"
      columns=${columns}
      rows=${steps.map(stepRow)}
    />`;
}

/** Returns a text such as `mine: http_401, invalid_api_key, 10.0.0.7:8000`. */
function failureLine({ upstream, upstream_failure: failure }) {
  const { cause, code, type, backend, address, timeout_ms: limitMs } = failure;
  const limit = limitMs === undefined ? undefined : `limit ${format.duration(limitMs)}`;
  const parts = [cause, code ?? type, limit, backend, address === backend ? undefined : address];
  const text = parts.filter((part) => part !== undefined).join(", ");
  return upstream === undefined ? text : `${upstream}: ${text}`;
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

function stepRow({ step, did, reason, ms }, i) {
  const result = html`<${Badge} meaning=${meanings[did] ?? "quiet"}>${did}<//>
    ${reason !== undefined && html`<span class="quiet">${reason}</span>`}`;
  return { key: String(i), cells: [step, result, format.duration(ms)] };
}
