/**
 * Measures Sluice and its peers side by side in one run, with three workloads: calls of a node, MCP and chat completions.
 * The CPU time comes from the kernel's accounting of the peer's process; a noisy machine distorts it least. A peer runs
 * on core 0, and the backend and the load on the last core. Gateways with several threads may use as many cores.
 *
 *   npm run bench -- [--workload node] [--only sluice] [--rounds 3] [--seconds 1.5] [--connections 256] [--streams 1000]
 *                    [--tokens 50] [--agent] [--write]  (--only "API": the other APIs for models; --agent: traffic of
 *                    agents; --write: also writes the tables into bench/load/notes.md)
 *   npm run bench -- --start   (start, memory and size: bench/start/run.ts)
 *   npm run bench -- --replicas  (gateways that share PostgreSQL and Redis: bench/replicas/run.ts)
 *   npm run bench -- --follow  (many clients of chainHead_v1_follow: bench/ws/run.ts)
 *   npm run bench -- --archive  (reads of archive_v1_storage: bench/ws/archive.ts)
 *   npm run bench -- --dashboard  (10,000 keys and a year of charges: bench/dashboard/run.ts)
 *   npm run bench -- --plot    (measures nothing, and draws the plots of bench/README.md)
 */
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measureDashboard } from "../dashboard/run.ts";
import { writePlots } from "../plot.ts";
import { measureReplicas } from "../replicas/run.ts";
import { measureStarts } from "../start/run.ts";
import { measureArchiveReads } from "../ws/archive.ts";
import { measureFollows } from "../ws/run.ts";
import { startDriver, type Driver } from "./driver.ts";
import { columns, measureRow, tails, type Method, type Row } from "./measure.ts";
import { startPeer } from "./process.ts";
import { median, table } from "./table.ts";
import { workloads, type Workload } from "./targets.ts";

const { values } = parseArgs({
  options: {
    workload: { type: "string", multiple: true, default: Object.keys(workloads) },
    only: { type: "string", multiple: true },
    rounds: { type: "string", default: "1" },
    seconds: { type: "string", default: "1.5" },
    connections: { type: "string", multiple: true, default: ["8", "32", "256"] },
    streams: { type: "string", multiple: true, default: ["1", "64", "512"] },
    tokens: { type: "string", default: "50" },
    agent: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    plot: { type: "boolean", default: false },
    start: { type: "boolean", default: false },
    replicas: { type: "boolean", default: false },
    follow: { type: "boolean", default: false },
    archive: { type: "boolean", default: false },
    dashboard: { type: "boolean", default: false },
    folder: { type: "string" },
  },
});
const method: Method = {
  seconds: Number(values.seconds),
  connections: values.connections.map(Number),
  streams: values.streams.map(Number),
  tokens: Number(values.tokens),
  isAgent: values.agent,
  restMs: 1_000,
};

interface Column {
  readonly title: string;
  readonly digits: number;
  /** `added`: without the latency of the backend. `ratio`: with the ratio to the yardstick. */
  readonly kind?: "added" | "ratio";
}

const memoryColumns = [columns.idle, columns.loaded, columns.after, columns.growth].map(
  (title): Column => ({ title, digits: 0 }),
);
const streamMemory = [...memoryColumns, { title: columns.perStream, digits: 0 }];

if (values.plot) writePlots();
else if (values.start) await measureStarts();
else if (values.replicas) await measureReplicas(values.only);
else if (values.follow) await measureFollows();
else if (values.archive) await measureArchiveReads();
else if (values.dashboard) await measureDashboard(values.folder);
else await main();

async function main(): Promise<void> {
  const core = availableParallelism() - 1;
  await using driver = startDriver(core);
  for (const name of values.workload) {
    const workload = workloads[name];
    if (workload === undefined) throw new Error(`unknown workload ${name}`);
    await measure(workload, driver, core);
  }
}

async function measure(workload: Workload, driver: Driver, core: number): Promise<void> {
  const wanted = workload.targets.filter((target) =>
    values.only === undefined
      ? target.isExtra !== true
      : [workload.direct, workload.yardstick].includes(target.name) ||
        values.only.some((part) => target.name.includes(part)),
  );
  console.log(`\n## ${workload.title}`);
  for (const target of wanted) {
    if (target.missing !== undefined) console.log(`${target.name}: skipped, ${target.missing}`);
  }
  const targets = wanted.filter(({ missing }) => missing === undefined);
  const command = [process.execPath, join(import.meta.dirname, workload.backend)];
  await using backend = await startPeer(command, { core });
  const rows = new Map<string, Row[]>(targets.map((target) => [target.name, []]));
  const bench = { workload, backend, driver, method };
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const target of targets) rows.get(target.name)?.push(await measureRow(bench, target));
  }
  const text = report(workload, rows);
  console.log(`\n${text}`);
  if (values.write) write(workload.title, text);
}

function columnsOf({ path, rate }: Workload): readonly Column[] {
  if (path === undefined) {
    return method.streams.flatMap((streams): Column[] => [
      { title: columns.first(streams), digits: 2, kind: "added" },
      { title: columns.firstTail(streams), digits: 2, kind: "added" },
      // The kernel counts the time of a single stream too coarsely.
      ...(streams === 1
        ? []
        : [{ title: columns.token(streams), digits: 1, kind: "ratio" } as const]),
    ]);
  }
  return [
    { title: columns.p50, digits: 0, kind: "added" },
    { title: columns.p99, digits: 0, kind: "added" },
    ...method.connections.map((count): Column => {
      return { title: columns.cpu(count), digits: 1, kind: "ratio" };
    }),
    { title: columns.perSecond(Math.max(...method.connections)), digits: 0 },
    ...tails.map((ms) => ({ title: columns.tail(ms), digits: 0 })),
    { title: columns.atRate(rate), digits: 2 },
  ];
}

function report(workload: Workload, rows: ReadonlyMap<string, readonly Row[]>): string {
  const figure = (name: string | undefined, column: string): number =>
    median(
      (rows.get(name ?? "") ?? []).flatMap(({ figures }) => {
        const value = figures.get(column);
        return value === undefined ? [] : [value];
      }),
    );
  const text = (name: string, { title, digits, kind }: Column): string => {
    const value = figure(name, title);
    if (Number.isNaN(value)) return "";
    if (kind === "added" && workload.direct !== undefined) {
      return (value - figure(workload.direct, title)).toFixed(digits);
    }
    const ratio = value / figure(workload.yardstick, title);
    return kind === "ratio" && !Number.isNaN(ratio)
      ? `${value.toFixed(digits)} (${ratio.toFixed(2)})`
      : value.toFixed(digits);
  };
  const head = ({ title, kind }: Column): string =>
    kind === "added" && workload.direct !== undefined ? `added ${title}` : title;
  const names = [...rows.keys()];
  const memory = workload.path === undefined ? streamMemory : memoryColumns;
  const tables = [columnsOf(workload), memory].map((shown) => {
    const cells = names
      .filter((name) => name !== workload.direct)
      .map((name) => [name, ...shown.map((column) => text(name, column))]);
    return table(["", ...shown.map(head)], cells);
  });
  const alone = columnsOf(workload)
    .filter(({ title, kind }) => kind !== "ratio" && !Number.isNaN(figure(workload.direct, title)))
    .map(({ title, digits }) => `${title} ${figure(workload.direct, title).toFixed(digits)}`);
  const shares = [columns.driver, columns.backend].flatMap((column) => {
    const all = names.map((name) => figure(name, column) * 100).filter((share) => share > 0);
    if (all.length === 0) return [];
    return [`${column}: ${Math.min(...all).toFixed(0)} to ${Math.max(...all).toFixed(0)} %`];
  });
  const faults = [...rows].flatMap(([name, list]) =>
    list.flatMap((row) => row.faults.map((fault) => `${name}: ${fault}`)),
  );
  const [average = 0] = loadavg();
  const conditions = [
    `rounds: ${values.rounds}`,
    `cells of ${values.seconds} s`,
    `load average ${average.toFixed(1)} on ${availableParallelism()} cores`,
    ...shares,
  ];
  const lines = [conditions.join("; "), ...faults];
  if (alone.length > 0) lines.unshift(`${workload.direct}: ${alone.join("; ")}`);
  return [...tables, lines.map((line) => `- ${line}`).join("\n")].join("\n\n");
}

function write(title: string, text: string): void {
  const file = join(import.meta.dirname, "notes.md");
  const sections = readFileSync(file, "utf8").split(/^(?=## )/m);
  const index = sections.findIndex((section) => section.startsWith(`## ${title}\n`));
  if (index === -1) throw new Error(`the notes have no section "${title}"`);
  sections[index] = `## ${title}\n\n${text}\n\n`;
  writeFileSync(file, `${sections.join("").trimEnd()}\n`);
}
