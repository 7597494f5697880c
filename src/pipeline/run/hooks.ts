/**
 * Runs the hooks of steps. This is the only place that decides whether a hook runs, measures its time, limits how long
 * it may take, and ignores what a step in shadow mode refuses. A route of synchronous hooks costs no promise.
 */
import type { Outcome, Phase, Reply, ResponseHead } from "../../plugin.ts";
import type { CompiledRoute, PlacedStep, StepWith } from "../load/compile.ts";
import { startTimer, stopTimer } from "../observe/step-stats.ts";
import type { LiveExchange } from "./exchange.ts";
import { withinLimit } from "./step-limit.ts";

/** The phases in which steps have hooks. */
export type HookName = Exclude<Phase, "answer">;

/** How the hooks of one phase run. `Arg`: the argument that all hooks of the phase get. */
export interface HookPhase<Name extends HookName, Arg> {
  readonly name: Name;
  /** True if a reply of a hook counts. In other phases it is ignored. */
  readonly mayReply: boolean;
  steps(route: CompiledRoute): readonly StepWith<Name>[];
  /** True if the step at this depth takes part. */
  includes(x: LiveExchange, depth: number): boolean;
  call(step: StepWith<Name>, x: LiveExchange, arg: Arg): unknown;
}

const takesPart = (x: LiveExchange, depth: number): boolean => x.takesPart(depth);

export const requestHeaders: HookPhase<"requestHeaders", undefined> = {
  name: "requestHeaders",
  mayReply: true,
  steps: (route) => route.requestHeaders,
  includes: (x, depth) => !x.skips(depth),
  call(step, x) {
    x.record.enteredSteps = step.depth + 1;
    return step.hooks.requestHeaders(x);
  },
};

const noBody = Buffer.alloc(0);

export const requestBody: HookPhase<"requestBody", undefined> = {
  name: "requestBody",
  mayReply: true,
  steps: (route) => route.requestBody,
  includes: takesPart,
  call: (step, x) => step.hooks.requestBody(x, x.body ?? noBody),
};

export const responseHeaders: HookPhase<"responseHeaders", ResponseHead> = {
  name: "responseHeaders",
  mayReply: false,
  steps: (route) => route.responseHeaders,
  includes: takesPart,
  call: (step, x, head) => step.hooks.responseHeaders(x, head),
};

/** A chunk on its way through the hooks, which may replace it. */
export interface PassingChunk {
  bytes: Uint8Array;
}

export const responseChunk: HookPhase<"responseChunk", PassingChunk> = {
  name: "responseChunk",
  mayReply: false,
  steps: (route) => route.responseChunk,
  includes: takesPart,
  call(step, x, chunk) {
    chunk.bytes = step.hooks.responseChunk(x, chunk.bytes) ?? chunk.bytes;
  },
};

/** Runs at most once per step, even if a hook further down has replaced the reply. */
export const responseEnd: HookPhase<"responseEnd", undefined> = {
  name: "responseEnd",
  mayReply: true,
  steps: (route) => route.responseEnd,
  includes: (x, depth) => depth < x.responseEndDepth && x.takesPart(depth),
  call(step, x) {
    x.responseEndDepth = step.depth;
    return step.hooks.responseEnd(x, x.answerOutcome);
  },
};

/** Runs for every step that was entered, also for the one that failed. No failure of a hook stops the others. */
export const settled: HookPhase<"settled", Outcome> = {
  name: "settled",
  mayReply: false,
  steps: (route) => route.settled,
  includes: (x, depth) => depth < x.record.enteredSteps && !x.isExcluded(depth),
  call(step, x, outcome) {
    try {
      // A plugin in JavaScript may return a promise here.
      const result: unknown = step.hooks.settled(x, outcome);
      if (result instanceof Promise) result.catch((error: unknown) => logSettled(x, step, error));
    } catch (error) {
      logSettled(x, step, error);
    }
  },
};

function logSettled(x: LiveExchange, { name }: PlacedStep, error: unknown): void {
  const { requestId } = x.facts;
  x.runtime.log.error({ err: error, step: name, requestId }, "a settled hook failed");
}

/**
 * Runs the hooks of a phase from index `from`. Returns the first reply; `x.at` is then the step that returned it.
 * Returns a promise only if a hook returned one. Throws, or rejects with, what a hook threw; `x.at` is then its step.
 */
export function runHooks<Name extends HookName, Arg>(
  x: LiveExchange,
  phase: HookPhase<Name, Arg>,
  arg: Arg,
  from = 0,
): Reply | undefined | Promise<Reply | undefined> {
  const steps = phase.steps(x.compiled);
  for (let i = from; i < steps.length; i++) {
    const step = steps[i];
    if (step === undefined || !phase.includes(x, step.depth)) continue;
    x.at = step;
    const since = startTimer(x);
    let result: unknown;
    try {
      result = phase.call(step, x, arg);
    } catch (error) {
      if (!isFailureIgnored(x, step, error)) throw error;
    }
    if (result instanceof Promise) return runLater(x, phase, arg, i, since, result);
    stopTimer(x, step.depth, since);
    const reply = replyOf(x, phase, step, result);
    if (reply !== undefined) return reply;
  }
  x.at = undefined;
  return undefined;
}

/** Waits for the hook at index `i`, then runs the others. No hook runs after the exchange has settled. */
async function runLater<Name extends HookName, Arg>(
  x: LiveExchange,
  phase: HookPhase<Name, Arg>,
  arg: Arg,
  i: number,
  since: number,
  running: Promise<unknown>,
): Promise<Reply | undefined> {
  const step = phase.steps(x.compiled)[i];
  if (step === undefined) return undefined;
  let result: unknown;
  try {
    result = await withinLimit(x, step, phase.name, running);
    x.at = step;
  } catch (error) {
    x.at = step;
    if (!isFailureIgnored(x, step, error)) throw error;
  }
  stopTimer(x, step.depth, since);
  if (x.hasSettled) return undefined;
  const reply = replyOf(x, phase, step, result);
  return reply === undefined ? runHooks(x, phase, arg, i + 1) : reply;
}

/** Returns the result of a hook as a reply, if it counts. */
function replyOf<Name extends HookName, Arg>(
  x: LiveExchange,
  phase: HookPhase<Name, Arg>,
  step: PlacedStep,
  result: unknown,
): Reply | undefined {
  if (result === undefined || !phase.mayReply) return undefined;
  // The contract allows nothing else. `reply` handles what a plugin in JavaScript returns instead.
  const reply = result as Reply;
  return isRefusalIgnored(x, step, reply) ? undefined : reply;
}

/** True if the reply must not be sent, because its step is in shadow mode. The reply is counted and logged. */
export function isRefusalIgnored(x: LiveExchange, step: PlacedStep, reply: Reply | null): boolean {
  if (!step.shadow) return false;
  countShadowRefusal(x, step);
  const { requestId } = x.facts;
  x.runtime.log.info(
    { step: step.name, route: x.route.path, status: reply?.status, code: reply?.code, requestId },
    "shadow: would have replied",
  );
  return true;
}

/** True if the exchange continues although the step has failed, because the step is in shadow mode. */
export function isFailureIgnored(x: LiveExchange, step: PlacedStep, error: unknown): boolean {
  if (!step.shadow) return false;
  countShadowRefusal(x, step);
  const { requestId } = x.facts;
  x.runtime.log.error(
    { err: error, step: step.name, route: x.route.path, requestId },
    "shadow: the step failed",
  );
  return true;
}

function countShadowRefusal(x: LiveExchange, step: PlacedStep): void {
  step.shadowRefusals.add(1);
  x.record.addShadowRefusal(step.depth);
}
