/** Tests of `idempotency` in the data folder. test/contract/idempotency.ts has the tests of every store. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { IdempotencySlot, IdempotentRequest, StoredResponse } from "sluice-gateway/services";
import { LeasedSlots } from "../../../../plugins/billing/accounts/idempotency.ts";
import { accountsFixture, type AccountsFixture } from "./fixture.ts";
import { openAccountsOn } from "./open-accounts.ts";
import { keptLog } from "../../../test-log.ts";

const request: IdempotentRequest = {
  apiKeyId: "key_1",
  key: "gateway_a",
  fingerprint: "a".repeat(64),
};
const response: StoredResponse = {
  status: 201,
  contentType: "text/plain",
  contentEncoding: "br",
  body: Uint8Array.of(0, 255, 10),
};

interface Served extends AccountsFixture {
  readonly idempotency: LeasedSlots;
  readonly idempotencyLines: readonly string[];
}

async function serve(t: TestContext): Promise<Served> {
  const fixture = await accountsFixture(t);
  const { slots } = await openAccountsOn(fixture.sql);
  const { log, lines } = keptLog();
  const idempotency = new LeasedSlots({ slots, clock: fixture.clock, log });
  t.after(() => idempotency.close());
  return { ...fixture, idempotency, idempotencyLines: lines };
}

async function take(idempotency: LeasedSlots): Promise<IdempotencySlot> {
  const result = await idempotency.take(request);
  assert.ok(result.kind === "taken", result.kind);
  return result.slot;
}

const slots = ({ db }: Pick<AccountsFixture, "db">): number =>
  Number(db.prepare("SELECT count(*) AS n FROM idempotency_slots").get()?.["n"]);

test("more expired slots than one write deletes are deleted soon after", async (t) => {
  const served = await serve(t);
  const { idempotency, idempotencyLines, clock, db, idle } = served;
  db.exec(`WITH RECURSIVE one (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM one WHERE n < 450)
    INSERT INTO idempotency_slots (api_key_id, key, fingerprint, until, status, body)
    SELECT 'key_1', 'gateway_' || n, '${request.fingerprint}', 0, 200, x'' FROM one`);
  await take(idempotency);
  clock.advance(60_000);
  await idle();
  assert.equal(slots(served), 251);
  for (let sweep = 0; sweep < 2; sweep++) {
    clock.advance(250);
    await idle();
  }
  assert.equal(slots(served), 1);
  assert.deepEqual(idempotencyLines, []);
});

test("while the store cannot be written, no slot is taken, no work runs, and an error is logged", async (t) => {
  const { idempotency, idempotencyLines, db } = await serve(t);
  const unavailable = { kind: "unavailable" };
  const slot = await take(idempotency);
  db.exec("ALTER TABLE idempotency_slots RENAME TO slots_elsewhere");
  const another = { ...request, key: "gateway_b" };
  assert.deepEqual(await idempotency.take(another), unavailable);
  assert.deepEqual(await idempotency.once(another, () => assert.fail("it ran")), unavailable);
  assert.equal(await slot.store(response), false);
  assert.equal(idempotencyLines.length, 3);
  db.exec("ALTER TABLE slots_elsewhere RENAME TO idempotency_slots");
  assert.equal((await idempotency.take(another)).kind, "taken");
});
