import type { Outcome, Reply, ResponseHead } from "../../plugin.ts";
import type { HookName, PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { countFailure, isFailureIgnored } from "./step-failures.ts";

/**
 * `Arg`: the argument of the phase. All phases have the same members in the same order, which keeps `runHooks` fast.
 */
export interface HookPhase<Arg> {
  readonly name: HookName;
  /** True if a reply of a hook counts. In other phases it is ignored. */
  readonly mayReply: boolean;
  /** Steps are entered in this phase, whose hooks have no argument. In other phases only entered steps take part. */
  readonly enters: boolean;
  /** True if the step that has failed takes part, too. */
  readonly includesFailed: boolean;
  /** Returns the argument of the next hook. Undefined if all hooks get the argument of the phase. */
  readonly argument: ((x: LiveExchange, arg: Arg) => unknown) | undefined;
  /** Takes the result of a hook of a phase that is synchronous. Undefined for other phases. */
  readonly accept:
    | ((x: LiveExchange, step: PlacedStep, arg: Arg, result: unknown) => void)
    | undefined;
  /** Returns true if the exchange continues although the step has failed. */
  readonly ignoresFailure: (x: LiveExchange, step: PlacedStep, error: unknown) => boolean;
}

export const requestHeaders: HookPhase<undefined> = {
  name: "requestHeaders",
  mayReply: true,
  enters: true,
  includesFailed: false,
  argument: undefined,
  accept: undefined,
  ignoresFailure: isFailureIgnored,
};

const noBody = Buffer.alloc(0);

export const requestBody: HookPhase<undefined> = {
  name: "requestBody",
  mayReply: true,
  enters: false,
  includesFailed: false,
  // The hook before may have replaced the body.
  argument: (x) => x.body ?? noBody,
  accept: undefined,
  ignoresFailure: isFailureIgnored,
};

export const responseHeaders: HookPhase<ResponseHead> = {
  name: "responseHeaders",
  mayReply: false,
  enters: false,
  includesFailed: false,
  argument: undefined,
  accept: undefined,
  ignoresFailure: isFailureIgnored,
};

export interface ReplaceableChunk {
  bytes: Uint8Array;
}

export const responseChunk: HookPhase<ReplaceableChunk> = {
  name: "responseChunk",
  mayReply: false,
  enters: false,
  includesFailed: false,
  argument: (_, chunk) => chunk.bytes,
  accept(x, step, chunk, result) {
    if (result === undefined || result === null) return;
    if (!(result instanceof Uint8Array)) throw invalidChunk("responseChunk", result);
    if (step.isSkippable) (x.record.changedBody ??= new Set()).add(step.depth);
    chunk.bytes = result;
  },
  // A body of which a step has changed only the first part must not look complete.
  ignoresFailure: (x, step, error) =>
    x.record.changedBody?.has(step.depth) !== true && isFailureIgnored(x, step, error),
};

export function invalidChunk(hook: HookName, result: unknown): TypeError {
  // Nothing waits for a promise, so its rejection would end the process.
  if (result instanceof Promise) result.catch(() => {});
  const what = result instanceof Promise ? "a promise" : `a value of type ${typeof result}`;
  return new TypeError(`${hook} returned ${what}, expected a Uint8Array or nothing`);
}

/** Begin at `x.nextResponseEnd`, so that each hook runs at most once, even if one of them replaces the reply. */
export const responseEnd: HookPhase<Reply["outcome"]> = {
  name: "responseEnd",
  mayReply: true,
  enters: false,
  includesFailed: false,
  argument: undefined,
  accept: undefined,
  ignoresFailure: isFailureIgnored,
};

/** The failure of one hook does not stop the others. */
export const settled: HookPhase<Outcome> = {
  name: "settled",
  mayReply: false,
  enters: false,
  includesFailed: true,
  argument: undefined,
  accept(x, step, _, result) {
    // A plugin in JavaScript may return a promise here.
    if (result instanceof Promise) result.catch((error: unknown) => logSettled(x, step, error));
  },
  ignoresFailure: logSettled,
};

function logSettled(x: LiveExchange, step: PlacedStep, error: unknown): true {
  countFailure(x, step, error);
  const { requestId } = x.facts;
  x.runtime.log.error({ err: error, step: step.name, requestId }, "a settled hook failed");
  return true;
}
