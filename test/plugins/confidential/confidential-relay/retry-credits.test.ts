/** Credit for retries of answers that broke off. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  creditMilliCu,
  MemoryRetryCredits,
} from "../../../../plugins/confidential/confidential-relay/retry-credits.ts";
import type { StreamAttempt } from "../../../../plugins/confidential/confidential-relay/stream-store.ts";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { manualClock } from "../../../../src/testing/clock.ts";

const hello = { idempotencyKey: "once", network: "alpha", model: "M", maxOutputTokens: 100 };
const attempt: StreamAttempt = { keyId: "key_1", hello, requestBytes: 288 };

test("the part of an answer that was sent is not credited, and the credit is rounded down", () => {
  assert.equal(creditMilliCu(300, { sent: 0, all: 0 }), 300);
  assert.equal(creditMilliCu(300, { sent: 0, all: 1_000 }), 300);
  assert.equal(creditMilliCu(300, { sent: 1_000, all: 1_000 }), 0);
  assert.equal(creditMilliCu(300, { sent: 999, all: 1_000 }), 0);
  assert.equal(creditMilliCu(7, { sent: 1, all: 2 }), 3);
  const much = Number.MAX_SAFE_INTEGER;
  assert.equal(creditMilliCu(much, { sent: 2 ** 31, all: 2 ** 32 }), (much - 1) / 2);
});

test("a key has at most 64 credits in memory, for one hour, and does not evict those of other keys", () => {
  const clock = manualClock();
  const credits = new MemoryRetryCredits(clock, createMetrics());
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
  assert.equal(credits.take(other, 5), 5);
  clock.advance(3_600_000);
  assert.equal(credits.take(other, 20), 0);
});
