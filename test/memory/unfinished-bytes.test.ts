/** Tests of the algorithms that limit the memory and the arrival rate of unfinished requests. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ArrivalRate } from "../../src/http/arrival-rate.ts";
import { UnfinishedBytes } from "../../src/memory/unfinished-bytes.ts";
import { manualClock } from "../../src/testing/clock.ts";

const limits = { maxBytes: 100, maxBytesPerOwner: 60 };

describe("the memory of unfinished requests", () => {
  test("is limited per owner and in total, and a refusal changes nothing", () => {
    let total = 0;
    const unfinished = new UnfinishedBytes((bytes) => {
      total = bytes;
    });
    const first = unfinished.hold("a", limits);
    const second = unfinished.hold("a", limits);
    const other = unfinished.hold("b", limits);
    assert.equal(first.resize(40), undefined);
    assert.equal(second.resize(21), "owner");
    assert.equal(second.resize(20), undefined);
    assert.equal(other.resize(41), "total");
    assert.equal(other.resize(40), undefined);
    assert.equal(total, 100);
    assert.equal(first.resize(10), undefined);
    assert.equal(total, 70);
    for (const held of [first, second, other, first]) held[Symbol.dispose]();
    assert.equal(total, 0);
    assert.equal(unfinished.hold("a", limits).resize(60), undefined);
  });
});

describe("the rate at which a request arrives", () => {
  function watched(): {
    readonly clock: ReturnType<typeof manualClock>;
    readonly rate: ArrivalRate;
    readonly slow: () => number;
  } {
    const clock = manualClock();
    let slow = 0;
    const rate = new ArrivalRate(clock, () => void slow++);
    return { clock, rate, slow: () => slow };
  }

  test("may be anything within the first second, and 64 KiB in 10 s afterwards", () => {
    const { clock, rate, slow } = watched();
    rate.add(1_000_000);
    clock.advance(1_000);
    rate.add(65_536);
    clock.advance(10_000);
    assert.equal(slow(), 0);
    rate.add(65_535);
    clock.advance(9_999);
    assert.equal(slow(), 0);
    clock.advance(1);
    assert.equal(slow(), 1);
    clock.advance(100_000);
    assert.equal(slow(), 1);
  });

  test("is not checked any more once the request is complete", () => {
    const { clock, rate, slow } = watched();
    clock.advance(5_000);
    rate[Symbol.dispose]();
    clock.advance(100_000);
    assert.equal(slow(), 0);
  });
});
