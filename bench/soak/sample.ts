/** What the gateway's process holds and costs, from /proc and from its own metrics; and the table of it. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

export interface Sample {
  readonly minute: number;
  readonly rssMiB: number;
  readonly handles: number;
  /** 99th percentile of the event loop's delay since the process started, ms; NaN if unknown. */
  readonly loopDelayMs: number;
  readonly journalMiB: number;
  readonly requests: number;
  /** CPU of the gateway, as a share of one core since the sample before. */
  readonly cpu: number;
  readonly open: number;
}

/** Clock ticks of /proc/<pid>/stat: 100 a second on every Linux that Node supports. */
const tickMs = 10;

/** CPU time of a process so far, milliseconds. */
export function cpuMs(pid: number): number {
  // The command's name may hold spaces; the fields after its closing bracket do not.
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

export function rssMiB(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
  return Number(kib ?? 0) / 1024;
}

export function handles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

export function journalMiB(folder: string): number {
  const data = join(folder, "data");
  const files = readdirSync(data).filter((name) => name.startsWith("journal"));
  const bytes = files.reduce((total, name) => total + statSync(join(data, name)).size, 0);
  return bytes / 1024 / 1024;
}

export interface Metrics {
  /** Lines that count something open and are not 0. */
  readonly open: readonly string[];
  readonly loopDelayMs: number;
}

/** Families that count what is open now: sessions, exchanges, reservations, unfinished bodies. */
const openFamilies = /^sluice_\w*(sessions|in_flight|open|running|unfinished|reserved|held)\w*$/;

export async function readMetrics(adminUrl: string): Promise<Metrics> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  const open: string[] = [];
  let loopDelayMs = NaN;
  for (const line of text.split("\n")) {
    const [, name = "", value] = /^(\w+)(?:\{.*\})? (\S+)$/.exec(line) ?? [];
    if (name === "nodejs_eventloop_lag_p99_seconds") loopDelayMs = Number(value) * 1000;
    if (!openFamilies.test(name) || name.endsWith("_total")) continue;
    if (Number(value) !== 0) open.push(line);
  }
  return { open, loopDelayMs };
}

export const tableHead =
  "| minute | RSS MiB | handles | loop delay p99 ms | journal MiB | requests | CPU | open |\n" +
  "| --- | --- | --- | --- | --- | --- | --- | --- |";

export function tableRow(sample: Sample): string {
  const cells = [
    sample.minute.toFixed(1),
    sample.rssMiB.toFixed(0),
    sample.handles,
    sample.loopDelayMs.toFixed(1),
    sample.journalMiB.toFixed(1),
    sample.requests,
    `${(sample.cpu * 100).toFixed(0)} %`,
    sample.open,
  ];
  return `| ${cells.join(" | ")} |`;
}
