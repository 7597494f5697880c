/** Tests of every implementation of the store of the encrypted stream: receipts, ids of sessions, credit for retries. */
import assert from "node:assert/strict";
import { describe, test, type TestContext } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import type { Receipt } from "sluice-gateway/services";
import type {
  StreamAttempt,
  StreamStore,
} from "../../plugins/confidential/confidential-relay/stream-store.ts";

export interface OpenStreamStore {
  readonly one: StreamStore;
  /** Another gateway with the same store. Undefined if only one gateway can use it. */
  readonly other?: StreamStore;
  readonly pass: (ms: number) => Awaitable<void>;
  readonly restart: () => Awaitable<StreamStore>;
}

const day = 86_400_000;
const session = "A".repeat(22);

export function receiptOf(rid: number, id = session): Receipt {
  return {
    session: id,
    rid,
    keyId: "key_1",
    workspaceId: "ws_1",
    report: "e30",
    sig: "AA",
    evidenceDigest: `sha256:${"0".repeat(64)}`,
    pricing: {
      network: "alpha",
      coefficient: 1000,
      pricePerTokenNano: "12",
      tokenUsdRate: "0.25",
      asOf: "2026-11-21T00:00:00.000Z",
    },
    usedCUMilli: 21,
    verified: true,
    unverifiedReason: undefined,
  };
}

const hello = {
  idempotencyKey: "once \0 \ud800",
  network: "alpha",
  model: "M",
  maxOutputTokens: 9,
};
const attempt: StreamAttempt = { keyId: "key_1", hello, requestBytes: 288 };

export function describeStreamStore(
  name: string,
  open: (t: TestContext) => Awaitable<OpenStreamStore>,
): void {
  describe(`store of the encrypted stream: ${name}`, () => {
    test("receipts are found by every gateway and after a restart", async (t) => {
      const { one, other = one, restart } = await open(t);
      const rids = [1, 2, 9_999_999_999];
      const kept = await Promise.all(rids.map((rid) => one.receipts.keep(receiptOf(rid))));
      assert.deepEqual(kept, [true, true, true]);
      // JSON omits undefined members.
      const { unverifiedReason: _, ...stored } = receiptOf(9_999_999_999);
      assert.deepEqual(await other.receipts.find(session, 9_999_999_999), stored);
      assert.equal(await other.receipts.find(session, 4), undefined);
      assert.equal(await other.receipts.find("B".repeat(22), 1), undefined);
      assert.equal((await (await restart()).receipts.find(session, 2))?.rid, 2);
    });

    test("a receipt is never replaced by a later one for the same request", async (t) => {
      const { one, other = one } = await open(t);
      const later = { ...receiptOf(1), usedCUMilli: 0 };
      assert.equal(await one.receipts.keep(receiptOf(1)), true);
      assert.equal(await other.receipts.keep(later), true);
      assert.deepEqual(
        await Promise.all(
          [receiptOf(2), { ...receiptOf(2), usedCUMilli: 0 }].map((each) =>
            one.receipts.keep(each),
          ),
        ),
        [true, true],
      );
      assert.equal((await one.receipts.find(session, 1))?.usedCUMilli, 21);
      assert.equal((await one.receipts.find(session, 2))?.usedCUMilli, 21);
    });

    test("receipts are kept for 90 days, and then deleted", async (t) => {
      const { one, pass } = await open(t);
      await one.receipts.keep(receiptOf(1));
      await pass(89 * day);
      await one.receipts.keep(receiptOf(2));
      assert.equal((await one.receipts.find(session, 1))?.rid, 1);
      await pass(2 * day);
      await one.receipts.keep(receiptOf(3));
      assert.equal(await one.receipts.find(session, 1), undefined);
      assert.equal((await one.receipts.find(session, 2))?.rid, 2);
    });

    test("an id of a session is claimed once, also by sessions that begin at the same time", async (t) => {
      const { one, other = one } = await open(t);
      const claims = [one, other, one, other].map(async ({ sessionIds }) =>
        sessionIds.claim(session),
      );
      assert.equal((await Promise.all(claims)).filter(Boolean).length, 1);
      assert.equal(await other.sessionIds.claim("B".repeat(22)), true);
    });

    test("an id of a session that has a receipt is not claimed again, after its end and after a restart", async (t) => {
      const { one, restart } = await open(t);
      await one.sessionIds.claim(session);
      await one.receipts.keep(receiptOf(1));
      assert.equal(await one.sessionIds.claim(session), false);
      assert.equal(await (await restart()).sessionIds.claim(session), false);
    });

    test("credit for a retry counts once, on any gateway", async (t) => {
      const { one, other = one } = await open(t);
      await one.retryCredits.add(attempt, 20);
      await other.retryCredits.add(attempt, 1);
      assert.equal(await other.retryCredits.take(attempt, 15), 15);
      assert.equal(await one.retryCredits.take(attempt, 15), 6);
      assert.equal(await other.retryCredits.take(attempt, 15), 0);
    });

    test("retries at the same time do not use the same credit", async (t) => {
      const { one, other = one } = await open(t);
      await one.retryCredits.add(attempt, 50);
      const takes = Array.from({ length: 10 }, async (_, index) =>
        (index % 2 === 0 ? one : other).retryCredits.take(attempt, 7),
      );
      const used = await Promise.all(takes);
      assert.equal(
        used.reduce((sum, each) => sum + each, 0),
        50,
      );
    });

    test("only an attempt with the same key, model, maximum and length uses the credit", async (t) => {
      const { one } = await open(t);
      await one.retryCredits.add(attempt, 20);
      await one.retryCredits.add({ ...attempt, hello: { ...hello, idempotencyKey: undefined } }, 9);
      const others: readonly StreamAttempt[] = [
        { ...attempt, keyId: "key_2" },
        { ...attempt, requestBytes: 544 },
        { ...attempt, hello: { ...hello, idempotencyKey: undefined } },
        { ...attempt, hello: { ...hello, model: "N" } },
      ];
      for (const wrong of others) assert.equal(await one.retryCredits.take(wrong, 20), 0);
      assert.equal(await one.retryCredits.take(attempt, 20), 20);
    });

    test("credit for a retry ends after one hour", async (t) => {
      const { one, pass } = await open(t);
      await one.retryCredits.add(attempt, 20);
      await pass(3_600_000);
      assert.equal(await one.retryCredits.take(attempt, 20), 0);
      await one.retryCredits.add(attempt, 3);
      assert.equal(await one.retryCredits.take(attempt, 20), 3);
    });

    test("receipts that wait when the store closes are durable", async (t) => {
      const { one, restart } = await open(t);
      const kept = [1, 2].map((rid) => one.receipts.keep(receiptOf(rid)));
      await one.close();
      assert.deepEqual(await Promise.all(kept), [true, true]);
      assert.equal((await (await restart()).receipts.find(session, 2))?.rid, 2);
    });
  });
}
