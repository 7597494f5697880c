import { isObject } from "../../base/is-object.ts";
import { keepingAlive, late, withinLimit } from "../../base/time-limit.ts";
import { manualClock, type ManualClock } from "../clock.ts";
import {
  openMemoryGateway,
  type MemoryGateway,
  type MemoryGatewayOptions,
  type MemoryPipeline,
} from "../memory-gateway.ts";
import { pipelineOf, requestPath, slotsOf, type StepExample } from "../test-plugin.ts";
import type { Plugin } from "../../plugin.ts";

export interface Subject {
  readonly plugin: Plugin;
  /** Loads the module of the plugin once more, with variables of its own. Undefined if it has no module. */
  readonly loadAgain?: (() => Promise<Plugin>) | undefined;
  readonly example: StepExample;
  /** Maximum real time, in milliseconds, for events that should happen at once. */
  readonly patienceMs: number;
}

/** One rule. `check` returns one sentence for each problem. */
export interface Rule {
  readonly name: string;
  readonly kinds: readonly Plugin["kind"][];
  check(subject: Subject): Promise<readonly string[]>;
}

export const allKinds: Rule["kinds"] = ["step", "surface", "tools", "service"];

const startMs = 2_000;

export interface SubjectGateway extends MemoryGateway {
  readonly clock: ManualClock;
}

/** Starts the plugin of the subject. `more`: changes the pipeline. `thread`: the thread that the gateway is. */
export async function openFor(
  { plugin, example }: Subject,
  more: (pipeline: MemoryPipeline) => MemoryPipeline = (pipeline) => pipeline,
  thread: Pick<MemoryGatewayOptions, "threads" | "without"> = {},
): Promise<SubjectGateway> {
  const clock = manualClock();
  const { path = "/*" } = example;
  // A start waits for services for 2 s of its clock, which nothing else advances.
  const waiting = setTimeout(() => clock.advance(startMs), startMs);
  try {
    const gateway = await openMemoryGateway({
      ...more(pipelineOf(plugin, example)),
      ...thread,
      clock,
      path: requestPath(path),
      slots: slotsOf(plugin),
    });
    return withClock(gateway, clock);
  } finally {
    clearTimeout(waiting);
  }
}

function withClock(gateway: MemoryGateway, clock: ManualClock): SubjectGateway {
  return Object.defineProperties(gateway, { clock: { value: clock } }) as SubjectGateway;
}

/** Returns the result, or undefined after `ms` of real time. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  const result = await withinLimit(promise, ms, keepingAlive);
  return result === late ? undefined : result;
}

export async function eventually(isTrue: () => boolean, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (;;) {
    if (isTrue()) return true;
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export function notSettled(path: string, ms: number, what = "the exchange"): string {
  return `${path}: ${what} did not settle within ${ms} ms`;
}

export function thrown(lines: readonly string[], { plugin }: Subject, path: string): string[] {
  return lines.flatMap((line) => {
    const start = line.indexOf(" {");
    if (!/ failed| not return in time/.test(line.slice(0, start))) return [];
    const fields: unknown = JSON.parse(line.slice(start + 1));
    if (!isObject(fields)) return [];
    const { step, plugin: name, err } = fields;
    if (step !== plugin.name && name !== plugin.name) return [];
    const reason = isObject(err) ? `: ${String(err["message"])}` : "";
    return [`${path}: ${line.slice(0, start)}${reason}`];
  });
}
