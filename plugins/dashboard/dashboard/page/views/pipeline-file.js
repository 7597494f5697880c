import { Badge, Empty, ErrorLine, Loading, Panel } from "../parts/basics.js";
import * as format from "../parts/format.js";
import { html, useMemo, useState } from "../parts/html.js";
import { usePolled } from "../parts/poll.js";

const everyMs = 5_000;
const contextLines = 3;

/** `faults`: those of a file that was refused. */
export function PipelineFile({ faults }) {
  const { data, error } = usePolled("pipeline-file", everyMs);
  const [showsAll, setShowsAll] = useState(false);
  const rows = useMemo(() => data && pairedRows(data.lines), [data]);
  if (data === undefined) {
    return html`<${ErrorLine} error=${error} />${error === undefined && html`<${Loading} />`}`;
  }
  const isDifferent = data.state === "different";
  const toggle = html`<button type="button" class="plain" onClick=${() => setShowsAll(!showsAll)}>
    ${showsAll ? "Show only changes" : "Show all lines"}
  </button>`;
  return html`<${ErrorLine} error=${error} />
    <${Panel} title="pipeline.yaml" aside=${isDifferent && toggle}>
      <${Summary} file=${data} />
      ${
        isDifferent
          ? html`<${Comparison} rows=${rows} showsAll=${showsAll} faults=${faults} />`
          : html`<${Lines} lines=${data.lines} />`
      }
    <//>`;
}

function Summary({ file: { state, path, problem, generation, lines } }) {
  const running = html`Generation ${format.count(generation)} runs <code>${path}</code>`;
  if (state === "same") {
    return html`<p class="status">
      <${Badge} meaning="ok">same on disk<//><span>${running}, which is unchanged on disk.</span>
    </p>`;
  }
  if (state === "unreadable") {
    return html`<p class="status">
      <${Badge} meaning="bad">not on disk<//>
      <span>${running}. The file cannot be compared: ${problem}.</span>
    </p>`;
  }
  const added = lines.filter(({ running: line }) => line === undefined).length;
  const removed = lines.filter(({ disk }) => disk === undefined).length;
  return html`<p class="status">
    <${Badge} meaning="warn">differs on disk<//>
    <span>
      ${running}. The file on disk has ${format.counted(added, "new line")} and lacks
      ${" "}${format.counted(removed, "line")}.
    </span>
  </p>`;
}

function Columns({ count }) {
  return html`<colgroup>
    ${Array.from(
      { length: count },
      () =>
        html`<col class="line-number" />
          <col />`,
    )}
  </colgroup>`;
}

function Lines({ lines }) {
  if (lines.length === 0) return html`<${Empty} title="The file is empty" />`;
  return html`<table class="code">
    <caption class="unseen">
      The lines of pipeline.yaml
    </caption>
    <${Columns} count=${1} />
    <tbody>
      ${lines.map(
        ({ text, running }) =>
          html`<tr>
            <td class="line-number">${running}</td>
            <td class="line">${text}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** On a phone, the lines of the two files are below each other. */
function Comparison({ rows, showsAll, faults }) {
  const near = showsAll ? rows : nearChanges(rows);
  const faultsByLine = Map.groupBy(faults, ({ at }) => at?.line);
  return html`<table class="code compared">
    <caption class="unseen">
      pipeline.yaml as it runs and on disk
    </caption>
    <${Columns} count=${2} />
    <thead>
      <tr>
        <th scope="col" colspan="2">As it runs</th>
        <th scope="col" colspan="2">On disk</th>
      </tr>
    </thead>
    <tbody>
      ${near.map((row) =>
        row.isGap
          ? html`<tr class="gap">
              <td colspan="4">${format.counted(row.count, "equal line")}</td>
            </tr>`
          : html`<${Pair} row=${row} faults=${faultsByLine.get(row.after?.disk) ?? []} />`,
      )}
    </tbody>
  </table>`;
}

function Pair({ row: { before, after }, faults }) {
  const isSame = before === after;
  return html`<tr class=${isSame ? "same" : ""}>
      <${Side} line=${before} number=${before?.running} kind=${isSame ? "" : "removed"} />
      <${Side} line=${after} number=${after?.disk} kind=${isSame ? "" : "added"} />
    </tr>
    ${faults.map(
      ({ code, message, remedy }) =>
        html`<tr class="fault">
          <td colspan="4"><b>${message}</b> ${remedy} <code>${code}</code></td>
        </tr>`,
    )}`;
}

const signs = { removed: "−", added: "+" };

function Side({ line, number, kind }) {
  if (line === undefined)
    return html`<td class="line-number absent" />
      <td class="line absent" />`;
  return html`<td class=${`line-number ${kind}`}>${number} ${signs[kind]}</td>
    <td class=${`line ${kind}`}>${line.text}</td>`;
}

/** A line that is in both files is on both sides. */
function pairedRows(lines) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let n = 0; n < Math.max(removed.length, added.length); n++) {
      rows.push({ before: removed[n], after: added[n] });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.disk === undefined) removed.push(line);
    else if (line.running === undefined) added.push(line);
    else {
      flush();
      rows.push({ before: line, after: line });
    }
  }
  flush();
  return rows;
}

/** Equal lines that are far from each change become gaps. */
function nearChanges(rows) {
  const isNear = Array(rows.length).fill(false);
  for (const [place, { before, after }] of rows.entries()) {
    if (before !== after)
      isNear.fill(true, Math.max(0, place - contextLines), place + contextLines + 1);
  }
  const near = [];
  for (const [place, row] of rows.entries()) {
    const last = near.at(-1);
    if (isNear[place]) near.push(row);
    else if (last?.isGap) last.count++;
    else near.push({ isGap: true, count: 1 });
  }
  return near;
}
