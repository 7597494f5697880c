/** The steps that stand around the surface: the first in the list is the outermost. */
import type { Reply, Surrounded } from "../../plugin.ts";
import type { PlacedStep, SurroundingStep } from "../load/compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { forgiven, shadowed } from "./shadow.ts";
import { StepTimeout } from "./step-limit.ts";

type Answer = Reply | undefined | Promise<Reply | undefined>;

/** The surface's answer, through the steps around it from index `from`. Throws what the surface or a step throws. */
export function answerOf(x: LiveExchange, from = 0): Answer {
  const step = x.compiled.around[from];
  if (step === undefined) {
    x.at = undefined;
    return x.compiled.surface.answer(x);
  }
  if (x.skips(step.depth)) return answerOf(x, from + 1);
  const below = new Below(x, from + 1);
  if (step.shadow) return shadow(x, step, below);
  x.at = step;
  const reply = step.hooks.around(x, below);
  if (!(reply instanceof Promise)) return noted(x, step, below, reply);
  return inOwnTime(x, step, below, reply).then((late) => noted(x, step, below, late));
}

/** As `inTime`, but the time of what lies below the step does not count. */
function inOwnTime(
  x: LiveExchange,
  step: SurroundingStep,
  below: Below,
  work: Promise<Reply | undefined>,
): Promise<Reply | undefined> {
  const { timeoutMs } = step;
  if (timeoutMs === 0) return work;
  const late = Promise.withResolvers<never>();
  let limit: Disposable | undefined;
  const stop = (): void => limit?.[Symbol.dispose]();
  const start = (): void => {
    limit = x.runtime.clock.after(timeoutMs, () => {
      x.at = step;
      below.isTooLate = true;
      late.reject(new StepTimeout(x, step, "around"));
    });
  };
  if (below.isRunning) below.onEnd = start;
  else start();
  below.onBegin = () => {
    stop();
    below.onEnd = start;
  };
  return Promise.race([work, late.promise]).finally(() => {
    stop();
    below.onEnd = undefined;
  });
}

/** A reply that is not the one from below is the step's own. */
function noted(
  x: LiveExchange,
  step: PlacedStep,
  below: Below,
  reply: Reply | undefined,
): Reply | undefined {
  if (reply === undefined || reply === below.reply) return reply;
  x.at = step;
  x.repliedByStep = true;
  x.repliedDepth = step.depth;
  return reply;
}

/** A step that shadows sees what lies below it, and changes nothing of it. */
async function shadow(
  x: LiveExchange,
  step: SurroundingStep,
  below: Below,
): Promise<Reply | undefined> {
  x.at = step;
  try {
    const result = step.hooks.around(x, below);
    const reply = result instanceof Promise ? await inOwnTime(x, step, below, result) : result;
    if (reply !== undefined && reply !== below.reply) shadowed(x, step, reply);
  } catch (error) {
    if (below.failed === undefined) forgiven(x, step, error);
  }
  // A step may have asked without waiting for the answer.
  await below.pending;
  if (below.failed !== undefined) throw below.failed.error;
  if (below.asked) return below.reply;
  below.isTooLate = false;
  return below.answer();
}

/** What a step stands around: the steps further in and the surface. */
class Below implements Surrounded {
  asked = false;
  /** The surface has been asked and has not answered yet. */
  isRunning = false;
  /** The step has used up its time: the client is answered without the surface. */
  isTooLate = false;
  /** Resolves when the surface has answered or failed; undefined if it did so at once. */
  pending: Promise<unknown> | undefined = undefined;
  onBegin: (() => void) | undefined = undefined;
  onEnd: (() => void) | undefined = undefined;
  reply: Reply | undefined = undefined;
  failed: { readonly error: unknown } | undefined = undefined;
  readonly #x: LiveExchange;
  readonly #from: number;

  constructor(x: LiveExchange, from: number) {
    this.#x = x;
    this.#from = from;
  }

  get atomic(): boolean {
    return this.#x.compiled.surface.atomic === true;
  }

  /** A function of its own, so that a step may destructure what it stands around. */
  readonly answer = (): Answer => {
    if (this.asked) throw new Error("a step called its surface twice");
    if (this.isTooLate) throw new Error("a step called its surface after its time limit");
    this.asked = true;
    try {
      const answer = answerOf(this.#x, this.#from);
      if (!(answer instanceof Promise)) return (this.reply = answer);
      this.isRunning = true;
      this.onBegin?.();
      const answered = answer.then(this.#answered, this.#rejected);
      // A step that does not wait for the answer must not turn its failure into an unhandled rejection.
      this.pending = answered.catch(() => {});
      return answered;
    } catch (error) {
      return this.#rejected(error);
    }
  };

  readonly #answered = (reply: Reply | undefined): Reply | undefined => {
    this.#ended();
    return (this.reply = reply);
  };

  readonly #rejected = (error: unknown): never => {
    this.#ended();
    this.failed = { error };
    throw error;
  };

  #ended(): void {
    this.isRunning = false;
    this.onEnd?.();
  }
}
