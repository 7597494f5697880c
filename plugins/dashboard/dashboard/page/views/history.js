import { Empty, ErrorLine, Loading, Panel } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Choice } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html, useMemo } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter, queryOf, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 30_000;
const ranges = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
  ["30d", "30 d"],
];
const kinds = [
  ["route", "Route"],
  ["upstream", "Upstream"],
  ["model", "Model"],
];

export function History() {
  const range = ranges.find(([each]) => each === filter("range"))?.[0] ?? "24h";
  const by = kinds.find(([each]) => each === filter("by"))?.[0] ?? "route";
  const name = filter("name");
  const query = queryOf({ range, by, name });
  const { data, error } = usePolled(`history?${query}`, everyMs);
  const charts = useMemo(() => data && chartsOf(data), [data]);
  const title = name === "" ? "Health over time: all requests" : `Health over time: ${name}`;
  return html`<${Panel} title=${title} aside=${data && total(data.total)}>
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${Choice} label="Range" options=${ranges} chosen=${range} name="range" />
      <${Choice} label="List by" options=${kinds} chosen=${by} name="by" reset=${{ name: "" }} />
      ${
        name !== "" &&
        html`<button type="button" class="plain" onClick=${() => setFilters({ name: "" })}>
          Show all requests
        </button>`
      }
    </div>
    ${
      data === undefined
        ? html`<${Loading} />`
        : html`<h3>Requests</h3>
            <${Chart} label="Requests over time" data=${charts?.requests} />
            <h3>Latency</h3>
            <${Chart} label="Latency over time" data=${charts?.latency} />
            ${
              charts?.firstToken !== undefined &&
              html`<h3>Time to the first token</h3>
                <${Chart} label="Time to the first token" data=${charts.firstToken} />
                <h3>Tokens</h3>
                <${Chart} label="Tokens over time" data=${charts.tokens} />`
            }
            <${Names} answer=${data} />
            <${Codes} codes=${data.total.codes} />`
    }
  <//>`;
}

function total({ requests, failed, p95_ms: p95 }) {
  return html`<p class="figure">
    <strong>${format.brief(requests)}</strong>
    <span class="quiet"
      >${`${requests === 1 ? "request" : "requests"}, ${format.count(failed)} failed, 95 % within ${format.duration(p95)}`}</span
    >
  </p>`;
}

function chartsOf({ from, step_seconds: stepSeconds, series }) {
  const chart = (unit, lines, isStacked = true) => ({
    from,
    stepSeconds,
    unit,
    isStacked,
    hasLegend: true,
    lines,
  });
  const line = (label, colour, values) => ({ label, colour, values });
  const other = series.requests.map((all, i) =>
    Math.max(0, all - series.failed[i] - Math.max(0, series.refused[i] - series.failed[i])),
  );
  const refused = series.refused.map((all, i) => Math.max(0, all - series.failed[i]));
  const hasTokens = series.output_tokens.some((count) => count > 0);
  return {
    requests: chart(format.brief, [
      line("Answered", "series-1", other),
      line("Refused", "warn-area", refused),
      line("Failed", "bad-area", series.failed),
    ]),
    latency: chart(
      format.duration,
      [
        line("Median", "series-1", series.p50_ms),
        line("95 %", "series-2", series.p95_ms),
        line("99 %", "series-4", series.p99_ms),
      ],
      false,
    ),
    firstToken: hasTokens
      ? chart(
          format.duration,
          [
            line("Median", "series-1", series.first_token_p50_ms),
            line("95 %", "series-2", series.first_token_p95_ms),
          ],
          false,
        )
      : undefined,
    tokens: chart(format.brief, [
      line("Input", "series-3", series.input_tokens),
      line("Output", "series-4", series.output_tokens),
    ]),
  };
}

function Names({ answer: { by, names, total: all } }) {
  if (names.length === 0) {
    return html`<${Empty} title="No requests">
      ${by === "model" ? "No model" : by === "upstream" ? "No upstream" : "No route"} has served a
      request in this range. Sums are stored once per minute and kept for 30 days.
    <//>`;
  }
  const isModel = by === "model";
  const columns = [
    { title: kinds.find(([each]) => each === by)?.[1] ?? "" },
    { title: "Requests", number: true },
    { title: "Failed", number: true },
    { title: "Median", number: true },
    { title: "95 %", number: true },
    { title: "99 %", number: true },
    ...(isModel
      ? [
          { title: "First token, 95 %", number: true },
          { title: "Tokens in / out", number: true },
        ]
      : []),
  ];
  const rows = names.map((each) => ({
    key: each.name,
    cells: [
      html`<button type="button" class="plain" onClick=${() => setFilters({ name: each.name })}>
        ${each.name}
      </button>`,
      format.count(each.requests),
      format.share(each.failed, each.requests),
      format.duration(each.p50_ms),
      format.duration(each.p95_ms),
      format.duration(each.p99_ms),
      format.duration(each.first_token_p95_ms),
      `${format.brief(each.input_tokens)} / ${format.brief(each.output_tokens)}`,
    ].slice(0, columns.length),
  }));
  return html`<h3>${columns[0]?.title}s</h3>
    <${Table} caption=${`Health by ${by}`} columns=${columns} rows=${rows} />
    ${all.requests === 0 && html`<p class="quiet">No requests in this range.</p>`}`;
}

function Codes({ codes }) {
  const rows = Object.entries(codes)
    .toSorted(([, a], [, b]) => b - a)
    .map(([code, count]) => ({
      key: code,
      cells: [html`${format.reason(code)} <code>${code}</code>`, format.count(count)],
    }));
  if (rows.length === 0) return null;
  const columns = [{ title: "Error" }, { title: "Requests", number: true }];
  return html`<h3>Errors</h3>
    <${Table} caption="Requests by error" columns=${columns} rows=${rows} />`;
}
