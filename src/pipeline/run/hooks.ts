/**
 * Runs the hooks of steps, except `around` (`around.ts`), which encloses the surface instead of running before or after
 * it. `runHooks` alone decides whether a hook runs, measures its time, limits how long it may take, and ignores what a
 * step in shadow mode refuses. A route of synchronous hooks costs no promise.
 */
import type { Reply, StepHooks } from "../../plugin.ts";
import type { Waiting } from "../../base/wait-limit.ts";
import type { PlacedStep } from "./compile.ts";
import { startTimer, stopTimer, warnIfBlocking } from "../observe/step-stats.ts";
import type { LiveExchange } from "./exchange.ts";
import type { HookPhase } from "./hook-phases.ts";
import { isRefusalIgnored, StepTimeout } from "./step-failures.ts";

/**
 * Runs the hooks of a phase from index `from`. Returns the first reply; `x.currentStep` is then the step that returned it.
 * Returns a promise only if a hook returned one. Throws, or rejects with, what a hook threw; `x.currentStep` is then its step.
 */
export function runHooks<Arg>(
  x: LiveExchange,
  phase: HookPhase<Arg>,
  arg: Arg,
  from = 0,
): Reply | undefined | Promise<Reply | undefined> {
  const { record } = x;
  const { name, mayReply, enters, includesFailed, argument, accept } = phase;
  const isTimed = record.times !== undefined;
  const hooks = x.compiled[name];
  // Reading the clock is the most expensive part of a timed hook, so each hook begins when the one before has ended.
  let since = isTimed && from < hooks.length ? startTimer(x) : 0;
  for (let i = from; i < hooks.length; i++) {
    const hook = hooks[i];
    if (hook === undefined) continue;
    const { step, depth } = hook;
    if (enters) record.enteredSteps = depth + 1;
    if (!record.takesPart(depth, includesFailed)) continue;
    // A step that could not create its state has nothing to release.
    if (includesFailed && hook.hasState && isWithoutState(x, depth)) continue;
    x.currentStep = step;
    if (name === "responseEnd") x.beginResponseEnd(i);
    let result: unknown;
    try {
      const state = hook.hasState ? stateOf(x, step) : undefined;
      result = enters
        ? hook.run.call(step.hooks, x, state, undefined)
        : hook.run.call(step.hooks, x, argument === undefined ? arg : argument(x, arg), state);
      if (accept !== undefined) {
        accept(x, step, arg, result);
        result = undefined;
      }
    } catch (error) {
      if (!phase.ignoresFailure(x, step, error)) {
        stopTimer(x, depth, since);
        throw error;
      }
      result = undefined;
    }
    if (result instanceof Promise) {
      if (isTimed) warnIfBlocking(x, depth, startTimer(x) - since);
      return new WaitingHook(x, step, phase, arg, i + 1, since).wait(result);
    }
    if (isTimed) {
      const began = since;
      since = stopTimer(x, depth, began);
      warnIfBlocking(x, depth, since - began);
    }
    if (result === undefined || !mayReply) continue;
    const reply = replyOf(x, step, result);
    if (reply !== undefined) return reply;
  }
  x.currentStep = undefined;
  return undefined;
}

/** No hook runs after the exchange has settled. */
class WaitingHook<Arg> implements Waiting {
  previous: Waiting | undefined = undefined;
  next: Waiting | undefined = undefined;
  waitingSince = 0;
  /** True after the hook has exceeded its time limit. Its later result is ignored. */
  #isLate = false;
  readonly #x: LiveExchange;
  readonly #step: PlacedStep;
  readonly #phase: HookPhase<Arg>;
  readonly #arg: Arg;
  readonly #next: number;
  readonly #since: number;
  readonly #result = Promise.withResolvers<Reply | undefined>();

  /** `next`: index of the hook after this one. `since`: start of the hook, as `startTimer` returned it. */
  constructor(
    x: LiveExchange,
    step: PlacedStep,
    phase: HookPhase<Arg>,
    arg: Arg,
    next: number,
    since: number,
  ) {
    this.#x = x;
    this.#step = step;
    this.#phase = phase;
    this.#arg = arg;
    this.#next = next;
    this.#since = since;
  }

  wait(running: Promise<unknown>): Promise<Reply | undefined> {
    this.#step.limit?.begin(this);
    running.then(
      (result) => {
        if (this.#hasEnded()) this.#resume(result);
      },
      (error: unknown) => {
        if (this.#hasEnded()) this.#failed(error);
      },
    );
    return this.#result.promise;
  }

  expired(): void {
    this.#isLate = true;
    this.#stopTimer();
    this.#failed(new StepTimeout(this.#x, this.#step, this.#phase.name));
  }

  #hasEnded(): boolean {
    if (this.#isLate) return false;
    this.#step.limit?.end(this);
    this.#stopTimer();
    return true;
  }

  #stopTimer(): void {
    this.#x.currentStep = this.#step;
    stopTimer(this.#x, this.#step.depth, this.#since);
  }

  #failed(error: unknown): void {
    if (this.#phase.ignoresFailure(this.#x, this.#step, error)) this.#resume(undefined);
    else this.#result.reject(error);
  }

  #resume(result: unknown): void {
    const { resolve, reject } = this.#result;
    const x = this.#x;
    const phase = this.#phase;
    if (x.hasSettled) return resolve(undefined);
    try {
      const reply =
        result === undefined || !phase.mayReply ? undefined : replyOf(x, this.#step, result);
      resolve(reply === undefined ? runHooks(x, phase, this.#arg, this.#next) : reply);
    } catch (error) {
      reject(error);
    }
  }
}

/** Returns the step's state and creates it on first use. Rethrows errors of `createState`. */
export function stateOf(x: LiveExchange, { depth, hooks }: PlacedStep): unknown {
  x.states ??= [];
  return (x.states[depth] ??= createState(x, hooks));
}

function createState(x: LiveExchange, hooks: StepHooks): unknown {
  const state = hooks.createState?.(x);
  // The hooks may wait for a promise. If none does, its rejection would end the process.
  if (state instanceof Promise) state.catch(() => {});
  return state;
}

function isWithoutState({ states, record }: LiveExchange, depth: number): boolean {
  return states?.[depth] === undefined && record.hasFailed(depth);
}

/** Undefined if its step is in shadow mode. */
function replyOf(x: LiveExchange, step: PlacedStep, result: unknown): Reply | undefined {
  // The contract allows nothing else. `reply.ts` handles what a plugin in JavaScript returns instead.
  const reply = result as Reply;
  return isRefusalIgnored(x, step, reply) ? undefined : reply;
}
