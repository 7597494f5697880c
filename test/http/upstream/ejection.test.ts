import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Ejection, type EjectionPolicy } from "../../../src/http/upstream/ejection.ts";
import { manualClock } from "../../../src/testing/clock.ts";

const policy: EjectionPolicy = {
  failures: 2,
  failuresAfterReturn: 1,
  firstMs: 1_000,
  maxMs: 3_000,
  jitter: 0,
};

function watch() {
  const clock = manualClock();
  const probedAt: number[] = [];
  const startedAt = clock.monotonic();
  const ejection = new Ejection(policy, clock, () => {
    probedAt.push(clock.monotonic() - startedAt);
  });
  return { clock, ejection, probedAt };
}

describe("an ejection", () => {
  it("happens after several failures in a row, or after a single certain one", () => {
    const { ejection } = watch();
    assert.equal(ejection.failed(), false);
    ejection.succeeded();
    assert.equal(ejection.failed(), false);
    assert.equal(ejection.failed(), true);
    assert.equal(watch().ejection.failed(true), true);
  });

  it("ends with a good probe; each bad one doubles the cooldown, up to the maximum", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    for (const ms of [1_000, 2_000, 3_000]) {
      clock.advance(ms);
      assert.equal(ejection.probed(false), false);
    }
    clock.advance(3_000);
    assert.deepEqual(probedAt, [1_000, 3_000, 6_000, 9_000]);
    assert.equal(ejection.probed(true), true);
    assert.equal(ejection.isEjected, false);
    assert.equal(ejection.failed(), true, "after a return, one failure is enough");
  });

  it("lasts twice as long soon after the last one, and as long as the first one later", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    clock.advance(1_000);
    ejection.probed(true);
    ejection.eject({ kind: "refused" });
    clock.advance(2_000);
    ejection.probed(true);
    clock.advance(3_000);
    ejection.eject({ kind: "refused" });
    clock.advance(1_000);
    assert.deepEqual(probedAt, [1_000, 3_000, 7_000]);
  });

  it("ends with an answer, but not with a probe that is reported during the cooldown", () => {
    const { ejection } = watch();
    ejection.eject({ kind: "refused" });
    assert.equal(ejection.probed(true), false);
    assert.equal(ejection.succeeded(), true);
    assert.equal(ejection.succeeded(), false);
  });

  it("neither begins nor is probed after it was closed", () => {
    const { clock, ejection, probedAt } = watch();
    ejection.eject({ kind: "refused" });
    ejection.close();
    clock.advance(10_000);
    assert.deepEqual(probedAt, []);
    ejection.succeeded();
    ejection.eject({ kind: "refused" });
    assert.equal(ejection.isEjected, false);
  });
});
