import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { HourlyValue } from "../../../../plugins/confidential/evidence/hourly-value.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

const { signal } = new AbortController();

test("a caller that leaves does not end the fetch, whose value others get", async () => {
  const value = new HourlyValue<string>(manualClock());
  const caller = new AbortController();
  const server = Promise.withResolvers<string>();
  let isAborted: (() => boolean) | undefined;
  const left = value.get((until) => {
    isAborted = () => until.aborted;
    return server.promise;
  }, caller.signal);
  caller.abort();
  assert.equal(await left, undefined);
  assert.equal(isAborted?.(), false);
  server.resolve("value");
  await setImmediate(); // The value is stored in microtasks.
  const other = (): Promise<string> => assert.fail("the value was fetched again");
  assert.equal(await value.get(other, signal), "value");
});

test("a fetch that takes too long is aborted, and is repeated after a minute", async () => {
  const clock = manualClock();
  const value = new HourlyValue<string>(clock);
  let until: AbortSignal | undefined;
  const waiting = value.get((given) => {
    until = given;
    return new Promise(() => {});
  }, signal);
  clock.advance(5_000);
  assert.equal(await waiting, undefined);
  assert.equal(until?.aborted, true);
  clock.advance(55_000);
  assert.equal(await value.get(() => Promise.resolve("value"), signal), "value");
});
