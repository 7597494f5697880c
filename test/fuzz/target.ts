/** Defines a fuzz target and its checks. Every input is drawn from one seed, so a failure can be repeated. */
import * as fc from "fast-check";

export interface FuzzTarget {
  /** Lower case with hyphens; `npm run fuzz -- --only NAME` selects it. */
  readonly name: string;
  /** Runs one round. The seed alone decides which inputs it draws. Throws `FuzzFailure`. */
  run(random: Random): Promise<void>;
}

export interface Random {
  readonly seed: number;
  readonly inputs: number;
  /**
   * Runs `property` with `runs` inputs. On a failure it throws `FuzzFailure` with the smallest input that still fails.
   */
  check<Input>(
    title: string,
    inputs: fc.Arbitrary<Input>,
    runs: number,
    property: (input: Input) => void | Promise<void>,
  ): Promise<void>;
}

/** The message contains everything that is needed to repeat the failure. */
export class FuzzFailure extends Error {
  override readonly name = "FuzzFailure";
}

/** `seed`: a 32-bit integer. */
export function createRandom(name: string, seed: number): Random {
  let drawn = 0;
  return {
    seed,
    get inputs() {
      return drawn;
    },
    async check(title, inputs, runs, property) {
      const checked = await fc.check(
        fc.asyncProperty(inputs, async (input) => {
          drawn++;
          await property(input);
        }),
        { seed, numRuns: runs },
      );
      if (!checked.failed) return;
      const [input] = checked.counterexample ?? [];
      throw new FuzzFailure(
        [
          `${name}: ${title}`,
          checked.counterexample === null
            ? `too many inputs were skipped (${checked.numSkips})`
            : `input, after ${checked.numShrinks} steps of reduction: ${fc.stringify(input)}`,
          `repeat: npm run fuzz -- --only ${name} --seed ${seed}`,
        ].join("\n"),
        { cause: checked.errorInstance },
      );
    },
  };
}
