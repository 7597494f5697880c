/** The steps that stand around the surface: the first in the list is the outermost. */
import type { Reply, Surrounded } from "../plugin.ts";
import type { PlacedStep, SurroundingStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { forgiven, shadowed } from "./shadow.ts";

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
  return reply.then((late) => noted(x, step, below, late));
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
    const reply = await step.hooks.around(x, below);
    if (reply !== undefined && reply !== below.reply) shadowed(x, step, reply);
  } catch (error) {
    if (below.failed === undefined) forgiven(x, step, error);
  }
  if (below.failed !== undefined) throw below.failed.error;
  return below.asked ? below.reply : below.answer();
}

/** What a step stands around: the steps further in and the surface. */
class Below implements Surrounded {
  asked = false;
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
    if (this.asked) throw new Error("a step asked its surface twice");
    this.asked = true;
    try {
      const answer = answerOf(this.#x, this.#from);
      if (!(answer instanceof Promise)) return (this.reply = answer);
      return answer.then((reply) => (this.reply = reply), this.#rejected);
    } catch (error) {
      return this.#rejected(error);
    }
  };

  readonly #rejected = (error: unknown): never => {
    this.failed = { error };
    throw error;
  };
}
