/** Tests of the data structure that drops the least recently used entry, and of waits with a limit. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { BoundedMap } from "../../src/base/bounded-map.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { WaitLimit, type Waiting } from "../../src/base/wait-limit.ts";

describe("a bounded map", () => {
  it("drops the least recently used entry when it is full, and reports it", () => {
    const dropped: number[] = [];
    const map = new BoundedMap<string, number>(2, (value) => dropped.push(value));
    map.set("a", 1);
    map.set("b", 2);
    assert.equal(map.get("a"), 1);
    map.set("c", 3);
    assert.deepEqual(
      [...map.entries()],
      [
        ["a", 1],
        ["c", 3],
      ],
    );
    assert.deepEqual(dropped, [2]);
  });

  it("does not count peek as a use", () => {
    const map = new BoundedMap<string, number>(2);
    map.set("a", 1);
    map.set("b", 2);
    assert.equal(map.peek("a"), 1);
    map.set("c", 3);
    assert.equal(map.has("a"), false);
  });

  it("drops nothing when a value is replaced or deleted", () => {
    const dropped: number[] = [];
    const map = new BoundedMap<string, number>(2, (value) => dropped.push(value));
    map.set("a", 1);
    map.set("b", 2);
    map.set("a", 3);
    map.delete("b");
    assert.deepEqual([...map.values()], [3]);
    assert.equal(map.size, 1);
    assert.deepEqual(dropped, []);
  });
});

class Wait implements Waiting {
  previous: Waiting | undefined = undefined;
  next: Waiting | undefined = undefined;
  waitingSince = 0;
  expirations = 0;

  expired(): void {
    this.expirations++;
  }
}

function begin(limit: WaitLimit): Wait {
  const wait = new Wait();
  limit.begin(wait);
  return wait;
}

test("each wait expires once, at its own limit", () => {
  const clock = manualClock();
  const limit = new WaitLimit(clock, 100);
  const first = begin(limit);
  clock.advance(60);
  const second = begin(limit);
  clock.advance(39);
  assert.equal(first.expirations, 0);
  clock.advance(1);
  assert.deepEqual([first.expirations, second.expirations, limit.size], [1, 0, 1]);
  clock.advance(59);
  assert.equal(second.expirations, 0);
  clock.advance(1_000);
  assert.deepEqual([first.expirations, second.expirations, limit.size], [1, 1, 0]);
});

test("a wait that has ended does not expire, and those after it still do", () => {
  const clock = manualClock();
  const limit = new WaitLimit(clock, 100);
  const ended = begin(limit);
  clock.advance(50);
  const late = begin(limit);
  limit.end(ended);
  limit.end(ended);
  clock.advance(99);
  assert.deepEqual([ended.expirations, late.expirations], [0, 0]);
  clock.advance(1);
  assert.deepEqual([ended.expirations, late.expirations], [0, 1]);
});

test("a wait that begins while another one expires has its whole limit", () => {
  const clock = manualClock();
  const limit = new WaitLimit(clock, 100);
  const retry = new Wait();
  const first = new Wait();
  first.expired = () => limit.begin(retry);
  limit.begin(first);
  clock.advance(100);
  assert.equal(limit.size, 1);
  clock.advance(99);
  assert.equal(retry.expirations, 0);
  clock.advance(1);
  assert.equal(retry.expirations, 1);
});

test("after close no wait expires", () => {
  const clock = manualClock();
  const limit = new WaitLimit(clock, 100);
  const wait = begin(limit);
  limit.close();
  clock.advance(1_000);
  assert.equal(wait.expirations, 0);
});
