/** Tests of the state machine of waits with a limit, with a manual clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { manualClock } from "../../src/testing/clock.ts";
import { WaitLimit, type Waiting } from "../../src/base/wait-limit.ts";

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
