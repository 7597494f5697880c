/** Credit for retries of answers that broke off. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  creditMilliCu,
  MemoryRetryCredits,
} from "../../../../plugins/confidential/confidential-relay/retry-credits.ts";
import type { StreamAttempt } from "../../../../plugins/confidential/confidential-relay/stream-store.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import type { Clock } from "../../../../src/plugin.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

const hello = { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 100 };
const attempt: StreamAttempt = { keyId: "key_1", hello, requestBytes: 288 };

function retriesAt(clock: Clock): MemoryRetryCredits {
  return new MemoryRetryCredits(clock, createMetrics());
}

test("the cost of an answer that did not arrive is deducted from the retry once", () => {
  const credits = retriesAt(manualClock());
  credits.add(attempt, 20);
  assert.equal(credits.take(attempt, 15), 15);
  assert.equal(credits.take(attempt, 15), 5);
  assert.equal(credits.take(attempt, 15), 0);
});

test("only an attempt with the same model, maximum and length uses the credit", () => {
  const others: readonly StreamAttempt[] = [
    { ...attempt, keyId: "key_2" },
    { ...attempt, requestBytes: 544 },
    { ...attempt, hello: { ...hello, idempotencyKey: "twice" } },
    { ...attempt, hello: { ...hello, idempotencyKey: undefined } },
    { ...attempt, hello: { ...hello, network: "beta" } },
    { ...attempt, hello: { ...hello, model: "N" } },
    { ...attempt, hello: { ...hello, maxOutputTokens: 1000 } },
  ];
  const credits = retriesAt(manualClock());
  credits.add(attempt, 20);
  for (const other of others) assert.equal(credits.take(other, 20), 0);
  assert.equal(credits.take(attempt, 20), 20);
});

test("credits expire after one hour", () => {
  const clock = manualClock();
  const credits = retriesAt(clock);
  credits.add(attempt, 20);
  clock.advance(3_600_000);
  assert.equal(credits.take(attempt, 20), 0);
});

test("the part of an answer that was sent is not credited, and the credit is rounded down", () => {
  assert.equal(creditMilliCu(300, { sent: 0, all: 0 }), 300);
  assert.equal(creditMilliCu(300, { sent: 0, all: 1_000 }), 300);
  assert.equal(creditMilliCu(300, { sent: 1_000, all: 1_000 }), 0);
  assert.equal(creditMilliCu(300, { sent: 999, all: 1_000 }), 0);
  assert.equal(creditMilliCu(7, { sent: 1, all: 2 }), 3);
  const much = Number.MAX_SAFE_INTEGER;
  assert.equal(creditMilliCu(much, { sent: 2 ** 31, all: 2 ** 32 }), (much - 1) / 2);
});

test("a key has at most 64 credits and does not evict those of other keys", () => {
  const credits = retriesAt(manualClock());
  const other = { ...attempt, keyId: "key_2" };
  credits.add(other, 20);
  const numbered = (index: number): StreamAttempt => ({
    ...attempt,
    hello: { ...hello, idempotencyKey: `once-${index}` },
  });
  for (let index = 0; index < 20_000; index++) credits.add(numbered(index), 20);
  assert.equal(credits.take(numbered(19_935), 20), 0);
  assert.equal(credits.take(numbered(19_936), 20), 20);
  assert.equal(credits.take(numbered(19_999), 20), 20);
  assert.equal(credits.take(other, 20), 20);
});
