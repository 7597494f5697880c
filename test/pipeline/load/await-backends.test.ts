/** Tests of the state machine that waits until services know whether they can serve, with a manual clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { awaitBackends } from "../../../src/pipeline/load/generation.ts";
import { manualClock } from "../../../src/testing/clock.ts";

function watched(promise: Promise<void>): { done: boolean } {
  const state = { done: false };
  void promise.then(() => (state.done = true));
  return state;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a generation waits until all its services know whether they can serve", async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const initialized = [first.promise, undefined, second.promise];
  const waiting = watched(awaitBackends(initialized, manualClock()));
  first.resolve();
  await turn();
  assert.equal(waiting.done, false);
  second.resolve();
  await turn();
  assert.equal(waiting.done, true);
});

test("a generation waits for 2 s for a service that does not know", async () => {
  const clock = manualClock();
  const waiting = watched(awaitBackends([new Promise<void>(() => {})], clock));
  clock.advance(1_999);
  await turn();
  assert.equal(waiting.done, false);
  clock.advance(1);
  await turn();
  assert.equal(waiting.done, true);
});

test("a generation without such services does not wait", async () => {
  const waiting = watched(awaitBackends([undefined], manualClock()));
  await turn();
  assert.equal(waiting.done, true);
});
