/** The view Usage: Credit Units over time by surface, workspace or key. */
import { Bar, Bars, Empty, ErrorLine, Loading, Panel, Swatch } from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Choice, WorkspaceSelect } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html, useMemo } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 10_000;
const ranges = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["30d", "30 d"],
];
const titles = { surfaces: "Surface", workspaces: "Workspace", keys: "Key" };

export function UsageView({ session }) {
  const isPlatform = session.scope === "platform";
  const groups = Object.entries(titles).filter(([each]) => isPlatform || each !== "workspaces");
  const range = filter("range", "24h");
  const by = groups.find(([each]) => each === filter("by"))?.[0] ?? "surfaces";
  const workspace = filter("workspace");
  const query = new URLSearchParams({ range, ...(workspace !== "" && { workspace }) });
  const { data, error } = usePolled(`usage?${query}`, everyMs);
  const chart = useMemo(() => data && chartData(data, by), [data, by]);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${Choice}
        label="Range"
        options=${ranges}
        chosen=${range}
        choose=${(chosen) => setFilters({ range: chosen })}
      />
      <${Choice}
        label="Group by"
        options=${groups}
        chosen=${by}
        choose=${(chosen) => setFilters({ by: chosen })}
      />
      ${
        isPlatform &&
        html`<${WorkspaceSelect}
          aria-label="Workspace"
          value=${workspace}
          onChange=${({ currentTarget }) => setFilters({ workspace: currentTarget.value })}
        />`
      }
    </div>
    <${Panel} title="Credit Units charged" aside=${data && total(data)}>
      <${Chart} label="Credit Units over time" data=${chart} />
      <${Lines} answer=${data} by=${by} />
    <//>
    ${data?.period !== undefined && html`<${Period} period=${data.period} />`}
  </div>`;
}

function total(answer) {
  return html`<p class="figure">
    <strong>${format.cu(answer.used_cu_milli)}</strong>
    <span class="quiet">${format.counted(answer.calls, "charge")}</span>
  </p>`;
}

function chartData(answer, by) {
  return {
    from: answer.from,
    stepSeconds: answer.step_seconds,
    unit: format.cuBrief,
    lines: answer[by].map((line, i) => ({
      label: nameOf(line),
      colour: `series-${i + 1}`,
      values: line.values,
    })),
  };
}

function nameOf({ id, name }) {
  if (id === undefined) return "Others";
  return name === undefined || name === "" ? id : name;
}

function Lines({ answer, by }) {
  if (answer === undefined) return html`<${Loading} />`;
  const lines = answer[by];
  if (lines.length === 0) {
    return html`<${Empty} title="Nothing was charged">
      Charges of this range appear here as soon as they are on disk.
    <//>`;
  }
  const columns = [
    { title: titles[by] },
    { title: "Charges", number: true },
    { title: "Used", number: true },
    { title: "Share", number: true },
  ];
  const rows = lines.map((line, i) => ({
    key: line.id ?? "",
    cells: [
      html`<${Swatch} colour=${`series-${i + 1}`} />${nameOf(line)}
        ${line.name !== undefined && line.name !== "" && html`<code>${line.id}</code>`}`,
      format.count(line.calls),
      format.cuAligned(line.used_cu_milli),
      format.share(line.used_cu_milli, answer.used_cu_milli),
    ],
  }));
  const caption = `Credit Units by ${titles[by].toLowerCase()}`;
  return html`<${Table} caption=${caption} columns=${columns} rows=${rows} />`;
}

function Period({ period }) {
  const { plan, start } = period;
  const purchased = period.purchased_cu_milli;
  /** @type {[string, number, number | undefined][]} */
  const parts = [
    ["Included", period.included_cu_milli, period.plan_includes_cu_milli],
    ["Purchased", purchased, purchased + period.purchased_left_cu_milli],
    ["Overage", period.overage_cu_milli, period.overage_limit_cu_milli],
  ];
  const badge = html`<span class="badge quiet">plan ${plan}</span>`;
  return html`<${Panel} title=${`Billing period since ${format.day(start)}`} aside=${badge}>
    <${Bars}>
      ${parts.map(
        ([name, used, limit]) =>
          html`<${Bar}
            fill=${limit !== undefined && limit > 0 ? Math.min(1, used / limit) : 0}
            name=${name}
            value=${format.cu(used)}
            note=${limit === undefined ? "no limit" : `of ${format.cu(limit)}`}
          />`,
      )}
    <//>
  <//>`;
}
