/**
 * Runs a real gateway process under mixed load with backends that fail and recover. At the end it checks that each
 * charge exists once and has the reported price, that nothing is open, and that the process exits in time.
 */
import { ChargeComparison, type ComparisonResult } from "./charge-comparison.ts";
import {
  drainSeconds,
  startSoakedGateway,
  startWorkerProcess,
  type SoakedGateway,
} from "./gateway.ts";
import { leaveRunning, maxSessionMilli, runClients, type ClientContext } from "./clients.ts";
import { cpuMicrosOf, rssMiBOf } from "../load/process.ts";
import { median } from "../load/table.ts";
import { sleep } from "./random.ts";
import { handles, journalMiB, readMetrics, type Sample } from "./sample.ts";
import { model, startModel, startNode } from "./upstreams.ts";

export interface SoakOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly threads: number;
  readonly sampleSeconds: number;
  readonly onSample?: (sample: Sample) => void;
}

export interface SoakResult {
  readonly samples: readonly Sample[];
  readonly book: ComparisonResult;
  readonly reloads: number;
  /** `exitSeconds` is the time from SIGTERM to the exit. */
  readonly exit: number | NodeJS.Signals;
  readonly exitSeconds: number;
  /** One sentence per failure. Empty if the run passed. */
  readonly faults: readonly string[];
}

const reloadSeconds = 7;
/** Time for the last connections and retries to end after the load: the gateway keeps idle connections for 5 s. */
const restMs = 15_000;
/** Handles that a gateway at rest may have more than before the load: connections to upstreams, log files. */
const handleRoom = 20;
/** Growth of RSS from the second quarter of a long run to its last that counts as a leak. */
const leakMiB = 96;
const leakMinutes = 10;

export async function soak(options: SoakOptions): Promise<SoakResult> {
  await using node = await startNode(options.seed);
  await using modelServer = await startModel(options.seed + 100);
  await using worker = await startWorkerProcess(modelServer.url, model);
  await using gateway = await startSoakedGateway({
    nodeUrl: node.url,
    modelUrl: modelServer.url,
    workerUrl: worker.url,
    workerRoot: worker.simulatedRoot,
    threads: options.threads,
  });
  const clientsEnd = new AbortController();
  const context: ClientContext = {
    gateway,
    book: new ChargeComparison(),
    workerRoot: worker.simulatedRoot,
    pace: { factor: 1 },
    signal: clientsEnd.signal,
  };
  const handlesBefore = handles(gateway.pid);
  const load = runClients(context, options.seed);
  // The promise is awaited below. Until then its rejection must not count as unhandled.
  load.catch(() => {});
  const { samples, reloads } = await watch(context, options, load);
  clientsEnd.abort();
  await load;
  node.calm();
  modelServer.calm();
  const faults: string[] = [];
  if (gateway.ended === undefined) faults.push(...(await checkRest(gateway, handlesBefore)));
  const { exit, exitSeconds } = await end(context);
  if (exit !== 0) faults.push(`the gateway ended with ${exit}`);
  if (exitSeconds > drainSeconds + 5) faults.push(`it took ${exitSeconds.toFixed(1)} s to end`);
  const session = { keyId: gateway.sessionKey.keyId, maxMilli: maxSessionMilli };
  const book = context.book.compare(gateway.charges(), session);
  faults.push(...book.faults, ...leak(samples));
  if (book.priced === 0) faults.push("no client received a price");
  if (faults.length > 0) faults.push(...gateway.complaints.slice(-10));
  return { samples, book, reloads, exit, exitSeconds, faults };
}

async function watch(
  { gateway, book, pace }: ClientContext,
  { seconds, sampleSeconds, onSample }: SoakOptions,
  load: Promise<void>,
): Promise<{ samples: Sample[]; reloads: number }> {
  const samples: Sample[] = [];
  const begun = performance.now();
  const elapsed = (): number => (performance.now() - begun) / 1000;
  let [reloads, nextReload, nextSample] = [0, reloadSeconds, sampleSeconds];
  let [lastCpu, lastSecond] = [cpuMicrosOf(gateway.pid), 0];
  let own = process.cpuUsage();
  let lastSampleCpu = lastCpu;
  while (elapsed() < seconds && gateway.ended === undefined) {
    await Promise.race([sleep(1_000), load]);
    if (gateway.ended !== undefined) break;
    const now = elapsed();
    const cpu = cpuMicrosOf(gateway.pid);
    const used = process.cpuUsage(own);
    own = process.cpuUsage();
    const share = (cpu - lastCpu + used.user + used.system) / 1e6 / (now - lastSecond);
    pace.factor = paced(pace.factor, share);
    [lastCpu, lastSecond] = [cpu, now];
    if (now >= nextReload) {
      await gateway.reload();
      reloads++;
      nextReload += reloadSeconds;
    }
    if (now < nextSample) continue;
    nextSample += sampleSeconds;
    const share60 = (cpu - lastSampleCpu) / 1e6 / sampleSeconds;
    lastSampleCpu = cpu;
    const sample = await takeSample(gateway, {
      minute: now / 60,
      requests: book.requests,
      cpu: share60,
    });
    samples.push(sample);
    onSample?.(sample);
  }
  return { samples, reloads };
}

/** Maximum share of one core that the gateway and the clients should use together. */
const maxShare = 0.6;

function paced(factor: number, share: number): number {
  if (share > maxShare * 0.9) return Math.min(factor * 1.25, 20);
  return share < maxShare * 0.6 ? Math.max(factor * 0.9, 1) : factor;
}

async function takeSample(
  gateway: SoakedGateway,
  known: Pick<Sample, "minute" | "requests" | "cpu">,
): Promise<Sample> {
  const { open, loopDelayMs } = await readMetrics(gateway.adminUrl);
  return {
    ...known,
    rssMiB: rssMiBOf(gateway.pid),
    handles: handles(gateway.pid),
    loopDelayMs,
    journalMiB: journalMiB(gateway.folder),
    open: open.length,
  };
}

/** Returns what is still open after the time limit. */
async function checkRest(gateway: SoakedGateway, handlesBefore: number): Promise<string[]> {
  const deadline = performance.now() + restMs;
  for (;;) {
    const { open } = await readMetrics(gateway.adminUrl);
    const extra = handles(gateway.pid) - handlesBefore;
    if (open.length === 0 && extra <= handleRoom) return [];
    if (performance.now() > deadline) {
      const faults = open.map((line) => `still open after the load: ${line}`);
      if (extra > handleRoom) faults.push(`${extra} handles more than before the load`);
      return faults;
    }
    await sleep(200);
  }
}

/** Sends SIGTERM while answers run. If the process does not end, it is killed and the run fails. */
async function end(
  context: ClientContext,
): Promise<{ exit: number | NodeJS.Signals; exitSeconds: number }> {
  const { gateway } = context;
  if (gateway.ended !== undefined) return { exit: gateway.ended, exitSeconds: 0 };
  leaveRunning(context);
  await sleep(300);
  const begun = performance.now();
  gateway.signal("SIGTERM");
  const timer = setTimeout(() => gateway.signal("SIGKILL"), (drainSeconds + 10) * 1000);
  const exit = await gateway.exited;
  clearTimeout(timer);
  return { exit, exitSeconds: (performance.now() - begun) / 1000 };
}

function leak(samples: readonly Sample[]): string[] {
  const last = samples.at(-1);
  if (last === undefined || last.minute < leakMinutes) return [];
  const quarter = Math.floor(samples.length / 4);
  const early = median(samples.slice(quarter, 2 * quarter).map((sample) => sample.rssMiB));
  const late = median(samples.slice(-quarter).map((sample) => sample.rssMiB));
  if (late - early < leakMiB) return [];
  return [`RSS grew from ${early.toFixed(0)} to ${late.toFixed(0)} MiB`];
}
