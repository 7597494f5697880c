import { ApiError, ask } from "../parts/api.js";
import {
  Bar,
  Bars,
  Empty,
  ErrorLine,
  Fact,
  Facts,
  Loading,
  Panel,
  Swatch,
} from "../parts/basics.js";
import { Chart } from "../parts/chart.js";
import { Choice, WorkspaceSelect } from "../parts/fields.js";
import * as format from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";
import { filter, queryOf, setFilters } from "../parts/router.js";
import { Table } from "../parts/table.js";

const everyMs = 30_000;
const dayMs = 86_400_000;
/** The title of each member, and the name of a group without a value. */
const members = {
  workspace: ["Workspace", ""],
  key: ["Key", ""],
  model: ["Model", "no model"],
  tool: ["Tool", "not a tool"],
  method: ["Method", ""],
  route: ["Route", "not recorded"],
  tag: ["Tag", "no tag"],
};
/** Ranges of whole days (UTC). */
const presets = {
  today: ["Today", (today) => [today, today + dayMs]],
  "2d": ["2 d", (today) => [today - dayMs, today + dayMs]],
  month: ["This month", (today) => [monthStart(today, 0), monthStart(today, 1)]],
  last: ["Last month", (today) => [monthStart(today, -1), monthStart(today, 0)]],
  "30d": ["30 d", (today) => [today - 29 * dayMs, today + dayMs]],
  year: ["12 months", (today) => [monthStart(today, -11), monthStart(today, 1)]],
};

export function SpendView({ session }) {
  const isPlatform = session.scope === "platform";
  const groups = Object.entries(members)
    .filter(([each]) => isPlatform || each !== "workspace")
    .map(([each, [title]]) => /** @type {[string, string]} */ ([each, title]));
  const by = groups.find(([each]) => each === filter("by"))?.[0] ?? groups[0]?.[0] ?? "key";
  const workspace = filter("workspace");
  const range = rangeOf();
  const query = queryOf({ from: dateOf(range.from), to: dateOf(range.to), by, workspace });
  const { data, error } = usePolled(`spend?${query}`, everyMs);
  const isCurrent = data?.by === by;
  const chart = useMemo(() => (isCurrent ? chartData(data) : undefined), [data, isCurrent]);
  return html`<div class="view">
    <${ErrorLine} error=${error} />
    <div class="tools">
      <${Choice}
        label="Range"
        options=${Object.entries(presets).map(([name, [title]]) => [name, title])}
        chosen=${range.preset}
        name="range"
        reset=${{ from: "", to: "" }}
      />
      <${Dates} range=${range} />
      ${
        isPlatform &&
        html`<${WorkspaceSelect}
          aria-label="Workspace"
          value=${workspace}
          onChange=${({ currentTarget }) => setFilters({ workspace: currentTarget.value })}
        />`
      }
    </div>
    <div class="tools">
      <${Choice} label="Break down by" options=${groups} chosen=${by} name="by" />
      <${Csv} query=${query} />
    </div>
    ${data?.plan !== undefined && html`<${Month} month=${data.plan} />`}
    <${Panel} title=${`Spend by ${members[by][0].toLowerCase()}`} aside=${data && total(data)}>
      <${Chart}
        label=${data?.step_seconds === 3_600 ? "Credit Units per hour" : "Credit Units per day"}
        data=${chart}
      />
      ${isCurrent ? html`<${Groups} answer=${data} />` : html`<${Loading} />`}
    <//>
  </div>`;
}

function rangeOf() {
  const from = Date.parse(`${filter("from")}T00:00:00Z`);
  const last = Date.parse(`${filter("to")}T00:00:00Z`);
  if (from <= last) return { preset: "", from, to: last + dayMs };
  const preset = filter("range") in presets ? filter("range") : "month";
  const today = Math.floor(Date.now() / dayMs) * dayMs;
  const [start, end] = presets[preset][1](today);
  return { preset, from: start, to: end };
}

function monthStart(time, months) {
  const date = new Date(time);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months);
}

function dateOf(time) {
  return new Date(time).toISOString().slice(0, 10);
}

function Dates({ range }) {
  const from = dateOf(range.from);
  const last = dateOf(range.to - dayMs);
  const input = (label, value, set) =>
    html`<input
      type="date"
      aria-label=${label}
      value=${value}
      required
      onChange=${({ currentTarget }) => currentTarget.value !== "" && set(currentTarget.value)}
    />`;
  return html`${input("First day (UTC)", from, (value) =>
    setFilters({ from: value, to: value > last ? value : last }),
  )}${input("Last day (UTC)", last, (value) =>
    setFilters({ from: value < from ? value : from, to: value }),
  )}`;
}

/** The API needs the header of the page, so this is not a plain link. */
function Csv({ query }) {
  const [note, setNote] = useState("");
  const save = async () => {
    setNote("");
    try {
      const text = await ask(`spend.csv?${query}`, { read: (response) => response.text() });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = `spend-by-${query.get("by")}-${query.get("from")}-${query.get("to")}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setNote(`The file could not be made: ${error.message}.`);
    }
  };
  return html`<span class="end">
    <span role="status" class="quiet">${note}</span>
    <button type="button" class="plain" onClick=${() => void save()}>Save as CSV</button>
  </span>`;
}

function total({ total: sum }) {
  return html`<p class="figure">
    <strong>${format.cu(sum.used_cu_milli)}</strong>
    <span class="quiet">${usd(sum.value_usd)}, ${format.counted(sum.calls, "charge")}</span>
  </p>`;
}

function usd(text) {
  return text === undefined ? format.none : `$${text}`;
}

/** The largest groups, and the rest of each step. */
function chartData({ from, step_seconds: stepSeconds, steps, series, groups }) {
  const lines = series.map((values, i) => ({
    label: nameOf(groups[i]),
    colour: `series-${i + 1}`,
    values,
  }));
  const rest = steps.map((all, step) => series.reduce((left, values) => left - values[step], all));
  if (rest.some((value) => value > 0)) {
    lines.push({ label: "Others", colour: "series-7", values: rest });
  }
  return { from: `${from}T00:00:00Z`, stepSeconds, unit: format.cuBrief, lines };
}

/** Tokens in the cache are shown if they have a price of their own. */
function tokensOf({ input_tokens: input, output_tokens: output, cached_tokens: cached }) {
  const counts = `${format.brief(input)} / ${format.brief(output)}`;
  return cached > 0 ? `${counts} (${format.brief(cached)} cached)` : counts;
}

function nameOf({ id, name }, by = "") {
  if (id === undefined) return members[by]?.[1] || "none";
  return name === undefined || name === "" ? id : name;
}

function Groups({ answer }) {
  const { by, groups, total: sum } = answer;
  if (groups.length === 0) {
    return html`<${Empty} title="Nothing was charged">
      No charge was made in this range. Choose another range, or make a call.
    <//>`;
  }
  const columns = [
    { title: members[by][0] },
    { title: "Charges", number: true },
    { title: "Used", number: true },
    { title: "Value", number: true },
    { title: "Overage", number: true },
    { title: "Tokens in / out", number: true },
    { title: "Share", number: true },
  ];
  const rows = groups.map((group, i) => ({
    key: group.id ?? "",
    cells: [
      html`${i < answer.series.length && html`<${Swatch} colour=${`series-${i + 1}`} />`}
      ${nameOf(group, by)}
      ${group.name !== undefined && group.name !== "" && html`<code>${group.id}</code>`}`,
      format.count(group.calls),
      format.cuAligned(group.used_cu_milli),
      usd(group.value_usd),
      usd(group.overage_usd),
      tokensOf(group),
      format.share(group.used_cu_milli, sum.used_cu_milli),
    ],
  }));
  const more = answer.group_count - groups.length;
  return html`<${Table}
      caption=${`Spend by ${members[by][0].toLowerCase()}`}
      columns=${columns}
      rows=${rows}
    />
    ${more > 0 && html`<p class="quiet">The CSV file has ${format.count(more)} more.</p>`}`;
}

function Month({ month }) {
  const { limit_cu_milli: limit, used_cu_milli: used, forecast_cu_milli: forecast } = month;
  const aside = month.plan && html`<span class="badge quiet">plan ${month.plan}</span>`;
  const bar = (name, milliCu) => {
    const fill = limit > 0 ? Math.min(1, milliCu / limit) : 0;
    return html`<${Bar}
      fill=${fill}
      meaning=${fill >= 0.95 ? "bad" : fill >= 0.8 ? "warn" : undefined}
      name=${name}
      value=${format.cu(milliCu)}
      note=${limit === undefined ? "no limit" : `of ${format.cu(limit)}`}
    />`;
  };
  return html`<${Panel}
    title=${`This month, since ${format.day(month.start)} (UTC)`}
    aside=${aside}
  >
    ${
      month.plan === undefined
        ? html`<${Facts}>
            <${Fact} name="Used">${format.cu(used)}<//>
            <${Fact} name="Forecast for the month">${format.cu(forecast)}<//>
            <${Fact} name="Value of the forecast">${usd(month.forecast_value_usd)}<//>
          <//>`
        : html`<${Bars}>${bar("Used", used)}${bar("Forecast for the month", forecast)}<//>
            <${Facts}>
              <${Fact} name="Purchased credit left">${format.cu(month.purchased_left_cu_milli)}<//>
              <${Fact} name="Overage">${format.cu(month.overage_cu_milli)}<//>
              <${Fact} name="Forecast of overage">${usd(month.forecast_overage_usd)}<//>
            <//>`
    }
  <//>`;
}
