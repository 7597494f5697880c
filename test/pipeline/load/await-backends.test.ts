import assert from "node:assert/strict";
import { test } from "node:test";
import { awaitBackends } from "../../../src/pipeline/load/await-backends.ts";
import { manualClock } from "../../../src/testing/clock.ts";

/** Whether it has resolved. */
function watched(promise: Promise<void>): { done: boolean } {
  const state = { done: false };
  void promise.then(() => (state.done = true));
  return state;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a generation waits until all its ledgers are settled", async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const ledgers = [{ settled: first.promise }, {}, { settled: second.promise }];
  const waiting = watched(awaitBackends(ledgers, manualClock()));
  first.resolve();
  await turn();
  assert.equal(waiting.done, false);
  second.resolve();
  await turn();
  assert.equal(waiting.done, true);
});

test("a ledger that does not settle is waited for 2 s", async () => {
  const clock = manualClock();
  const waiting = watched(awaitBackends([{ settled: new Promise(() => {}) }], clock));
  clock.advance(1_999);
  await turn();
  assert.equal(waiting.done, false);
  clock.advance(1);
  await turn();
  assert.equal(waiting.done, true);
});

test("without a ledger that must settle nothing is waited for", async () => {
  const waiting = watched(awaitBackends([{}], manualClock()));
  await turn();
  assert.equal(waiting.done, true);
});
