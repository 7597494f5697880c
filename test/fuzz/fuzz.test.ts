/** Every fuzz target once with a fixed seed and once with a fresh one. `npm run fuzz` runs them for as long as you want. */
import { describe, test } from "node:test";
import { createRandom } from "./target.ts";
import { targets } from "./targets.ts";

const fixedSeed = 20261121;
const freshSeed = Date.now() | 0;

for (const target of targets) {
  describe(target.name, () => {
    for (const seed of [fixedSeed, freshSeed]) {
      test(`no failure with seed ${seed}`, { timeout: 120_000 }, () =>
        target.run(createRandom(target.name, seed)),
      );
    }
  });
}
