/** What an attempt that takes another's place is spared. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Retries, type Attempt } from "../../../src/confidential/relay/retries.ts";
import { manualClock } from "../../../src/testing/clock.ts";

const hello = { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 100 };
const attempt: Attempt = { keyId: "key_1", hello, requestBytes: 288 };

test("what an answer cost that did not arrive is taken off the next one, once", () => {
  const retries = new Retries(manualClock());
  retries.lost(attempt, 20);
  assert.equal(retries.paid(attempt, 15), 15);
  assert.equal(retries.paid(attempt, 15), 5);
  assert.equal(retries.paid(attempt, 15), 0);
});

test("only an attempt that asks for as much, of the same model and in as many bytes, takes its place", () => {
  const others: readonly Attempt[] = [
    { ...attempt, keyId: "key_2" },
    { ...attempt, requestBytes: 544 },
    { ...attempt, hello: { ...hello, idempotencyKey: "twice" } },
    { ...attempt, hello: { ...hello, idempotencyKey: undefined } },
    { ...attempt, hello: { ...hello, network: "beta" } },
    { ...attempt, hello: { ...hello, model: "N" } },
    { ...attempt, hello: { ...hello, maxOutputTokens: 1000 } },
  ];
  const retries = new Retries(manualClock());
  retries.lost(attempt, 20);
  for (const other of others) assert.equal(retries.paid(other, 20), 0);
  assert.equal(retries.paid(attempt, 20), 20);
});

test("after an hour nobody tries again", () => {
  const clock = manualClock();
  const retries = new Retries(clock);
  retries.lost(attempt, 20);
  clock.advance(3_600_000);
  assert.equal(retries.paid(attempt, 20), 0);
});
