/** A short soak run. `npm run soak` is the long one (bench/README.md). */
import assert from "node:assert/strict";
import { test } from "node:test";
import { soak } from "../../bench/soak/soak.ts";

test(
  "under mixed load, with backends that come and go, every charge is made once and nothing stays open",
  { timeout: 120_000 },
  async () => {
    const { faults, book, reloads, samples } = await soak({
      seconds: 15,
      seed: 1,
      threads: 1,
      sampleSeconds: 5,
    });
    assert.deepEqual(faults, []);
    assert.ok(book.priced > 100, `only ${book.priced} answers had a price`);
    assert.ok(reloads > 0 && samples.length > 0);
  },
);
