/** Runs the surface inside the steps that wrap it. The first of them in the list is the outermost. */
import type { InnerSurface, Reply } from "../../plugin.ts";
import type { Waiting } from "../../base/wait-limit.ts";
import type { PlacedHook, PlacedStep } from "./compile.ts";
import { startTimer, stopTimer, warnIfBlocking } from "../observe/step-stats.ts";
import type { LiveExchange } from "./exchange.ts";
import { stateOf } from "./hooks.ts";
import { isFailureIgnored, isRefusalIgnored, StepTimeout } from "./step-failures.ts";

type Answer = Reply | undefined | Promise<Reply | undefined>;

export function answerOf(x: LiveExchange, from = 0): Answer {
  const hook = x.compiled.around[from];
  if (hook === undefined) return surfaceAnswer(x);
  const { step } = hook;
  if (!x.record.takesPart(step.depth, false)) return answerOf(x, from + 1);
  const inner = new ObservedSurface(x, from + 1);
  x.currentStep = step;
  const since = startTimer(x);
  let reply: Answer;
  try {
    reply = callHook(x, hook, inner);
  } catch (error) {
    stopTimer(x, step.depth, since + inner.tookMs);
    return afterFailure(x, step, inner, error);
  }
  if (reply instanceof Promise) return awaitAnswer(x, step, inner, since, reply);
  stopTimer(x, step.depth, since + inner.tookMs);
  return afterReply(x, step, inner, reply);
}

async function awaitAnswer(
  x: LiveExchange,
  step: PlacedStep,
  inner: ObservedSurface,
  since: number,
  work: Promise<Reply | undefined>,
): Promise<Reply | undefined> {
  let reply: Reply | undefined;
  try {
    reply = await withinOwnTime(x, step, inner, work);
  } catch (error) {
    stopTimer(x, step.depth, since + inner.tookMs);
    return afterFailure(x, step, inner, error);
  }
  stopTimer(x, step.depth, since + inner.tookMs);
  return afterReply(x, step, inner, reply);
}

/** A reply that does not come from the surface is the step's own. In shadow mode, the answer of the surface counts. */
function afterReply(
  x: LiveExchange,
  step: PlacedStep,
  inner: ObservedSurface,
  reply: Reply | undefined,
): Answer {
  const isOwn = reply !== undefined && reply !== inner.reply;
  if (isOwn && !isRefusalIgnored(x, step, reply)) {
    x.currentStep = step;
    x.repliedBy(step);
    return reply;
  }
  return step.shadow ? inner.result() : reply;
}

/** A step cannot be skipped after it has called the surface, because it may have undone what the surface has done. */
function afterFailure(
  x: LiveExchange,
  step: PlacedStep,
  inner: ObservedSurface,
  error: unknown,
): Answer {
  const isOwn = inner.failure === undefined;
  if (step.isSkippable && inner.isCalled) throw error;
  if (isOwn ? isFailureIgnored(x, step, error) : step.shadow) return inner.result();
  throw error;
}

function callHook(
  x: LiveExchange,
  { step, run, hasState }: PlacedHook,
  inner: ObservedSurface,
): Answer {
  const state = hasState ? stateOf(x, step) : undefined;
  // The contract allows nothing else. `reply.ts` handles what a plugin in JavaScript returns instead.
  return run.call(step.hooks, x, inner, state) as Answer;
}

function surfaceAnswer(x: LiveExchange): Answer {
  x.currentStep = undefined;
  const since = startTimer(x);
  const depth = x.compiled.steps.length;
  let answer: Answer = undefined;
  try {
    answer = x.compiled.surface.answer(x);
    warnIfBlocking(x, depth, startTimer(x) - since);
  } finally {
    if (!(answer instanceof Promise)) stopTimer(x, depth, since);
  }
  if (!(answer instanceof Promise) || x.record.times === undefined) return answer;
  return answer.finally(() => stopTimer(x, depth, since));
}

/** Limits the time of the step itself. The time of the steps and the surface that it wraps does not count. */
function withinOwnTime(
  x: LiveExchange,
  step: PlacedStep,
  inner: ObservedSurface,
  work: Promise<Reply | undefined>,
): Promise<Reply | undefined> {
  const { limit } = step;
  if (limit === undefined) return work;
  const late = Promise.withResolvers<never>();
  const wait: Waiting = {
    previous: undefined,
    next: undefined,
    waitingSince: 0,
    expired: () => {
      x.currentStep = step;
      inner.isTooLate = true;
      late.reject(new StepTimeout(x, step, "around"));
    },
  };
  const start = (): void => limit.begin(wait);
  if (inner.isRunning) inner.onEnd = start;
  else start();
  inner.onBegin = () => {
    limit.end(wait);
    inner.onEnd = start;
  };
  return Promise.race([work, late.promise]).finally(() => {
    limit.end(wait);
    inner.onEnd = undefined;
  });
}

class ObservedSurface implements InnerSurface {
  isCalled = false;
  isRunning = false;
  /** True if the step has used up its time. The client is then answered without the surface. */
  isTooLate = false;
  /** Milliseconds that the surface and the inner steps took, if the exchange is timed. */
  tookMs = 0;
  /** Resolves when the surface has answered or failed. Undefined if it did so synchronously. */
  pending: Promise<unknown> | undefined = undefined;
  onBegin: (() => void) | undefined = undefined;
  onEnd: (() => void) | undefined = undefined;
  reply: Reply | undefined = undefined;
  failure: { readonly error: unknown } | undefined = undefined;
  readonly #x: LiveExchange;
  readonly #from: number;
  #since = 0;

  constructor(x: LiveExchange, from: number) {
    this.#x = x;
    this.#from = from;
  }

  get atomic(): boolean {
    return this.#x.compiled.surface.atomic === true;
  }

  /** A separate function, so that a step may destructure the surface. */
  readonly answer = (): Answer => {
    if (this.isCalled) throw new Error("a step called its surface twice");
    if (this.isTooLate) throw new Error("a step called its surface after its time limit");
    this.isCalled = true;
    this.#since = startTimer(this.#x);
    try {
      const answer = answerOf(this.#x, this.#from);
      if (!(answer instanceof Promise)) return this.#answered(answer);
      this.isRunning = true;
      this.onBegin?.();
      const answered = answer.then(this.#answered, this.#failed);
      // If the step does not wait for the answer, a failure must not become an unhandled rejection.
      this.pending = answered.catch(() => {});
      return answered;
    } catch (error) {
      return this.#failed(error);
    }
  };

  /** Returns what the surface has answered, whatever the step has done. Rejects with its failure. */
  async result(): Promise<Reply | undefined> {
    // A step may have called the surface without waiting for the answer.
    await this.pending;
    if (this.failure !== undefined) throw this.failure.error;
    if (this.isCalled) return this.reply;
    this.isTooLate = false;
    return this.answer();
  }

  readonly #answered = (reply: Reply | undefined): Reply | undefined => {
    this.#ended();
    return (this.reply = reply);
  };

  readonly #failed = (error: unknown): never => {
    this.#ended();
    this.failure = { error };
    throw error;
  };

  #ended(): void {
    this.tookMs = startTimer(this.#x) - this.#since;
    this.isRunning = false;
    this.onEnd?.();
  }
}
