import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

export interface Sample {
  readonly minute: number;
  readonly rssMiB: number;
  readonly handles: number;
  /** 99th percentile of the event loop's delay since the start of the process. NaN if unknown. */
  readonly loopDelayMs: number;
  readonly journalMiB: number;
  readonly requests: number;
  /** CPU time of the gateway since the previous sample, as a share of one core. */
  readonly cpu: number;
  readonly open: number;
}

export function handles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

export function journalMiB(folder: string): number {
  const data = join(folder, "data");
  const files = readdirSync(data).filter((name) => name.startsWith("charges"));
  const bytes = files.reduce((total, name) => total + statSync(join(data, name)).size, 0);
  return bytes / 1024 / 1024;
}

export interface Metrics {
  readonly open: readonly string[];
  readonly loopDelayMs: number;
}

/** Gauges of everything that is open: sessions, exchanges, reservations, unfinished bodies. */
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
