/** Tests of `idempotency` in the data folder. test/contract/idempotency.ts has the tests of every store. */
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import type { IdempotencySlot, IdempotentRequest, StoredResponse } from "sluice-gateway/services";
import {
  openIdempotency,
  type IdempotencyService,
} from "../../../../plugins/billing/accounts/idempotency.ts";
import { sourceUrl, startModule } from "../../../store/run-module.ts";
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
  readonly idempotency: IdempotencyService;
  readonly idempotencyLines: readonly string[];
}

async function serve(t: TestContext): Promise<Served> {
  const fixture = await accountsFixture(t);
  const { slots } = await openAccountsOn(fixture.sql);
  const { log, lines } = keptLog();
  const idempotency = openIdempotency({ slots, clock: fixture.clock, log });
  t.after(() => idempotency.close());
  return { ...fixture, idempotency, idempotencyLines: lines };
}

async function take(idempotency: IdempotencyService): Promise<IdempotencySlot> {
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

test("processes that race for the same keys make each purchase once, and all get its response", async (t) => {
  const fixture = await accountsFixture(t);
  const { folder, workspace, store } = fixture;
  const racers = [1, 2, 3].map(() => startModule(racer(folder, workspace.id)));
  const outputs = racers.map(({ stdout }) =>
    createInterface({ input: stdout! })[Symbol.asyncIterator](),
  );
  for (const lines of outputs) assert.equal((await lines.next()).value, "ready");
  for (const { stdin } of racers) stdin?.end("go");
  const printed = await Promise.all(outputs.map((lines) => Array.fromAsync(lines)));
  assert.equal(printed[0]?.length, 20);
  assert.deepEqual(printed, [printed[0], printed[0], printed[0]]);
  assert.equal((await store.findWorkspace(workspace.id))?.purchasedTotalMilliCu, 20 * 5);
  assert.equal(slots(fixture), 20);
});

/** Buys 5 with each of 20 keys and prints each response. Retries while the store is locked. */
function racer(folder: string, workspaceId: string): string {
  return `
    const { openIdempotency } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/idempotency.ts"))});
    const { openAccountsOn } = await import(${JSON.stringify(sourceUrl("test/plugins/billing/accounts/open-accounts.ts"))});
    const { withFolderSql } = await import(${JSON.stringify(sourceUrl("test/store/open-sql.ts"))});
    const { systemClock: clock } = await import(${JSON.stringify(sourceUrl("src/base/clock.ts"))});
    const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
    await withFolderSql(${JSON.stringify(folder)}, async (sql) => {
      const { store, slots } = await openAccountsOn(sql);
      const idempotency = openIdempotency({ slots, clock, log });
      console.log("ready");
      await new Promise((go) => process.stdin.once("end", go).resume());
      for (let n = 0; n < 20; n++) {
        const request = { apiKeyId: "key_1", key: "gateway_" + n, fingerprint: "a".repeat(64) };
        let body;
        const work = async () => {
          const by = { actor: "test", at: clock.now() };
          const { purchaseId } = await store.purchase(${JSON.stringify(workspaceId)}, 5, by);
          body = Buffer.from(purchaseId);
          return { status: 200, contentType: undefined, contentEncoding: undefined, body };
        };
        let result;
        do result = await idempotency.once(request, work);
        while (result.kind === "unavailable");
        if (result.kind === "replay") body = Buffer.from(result.response.body);
        console.log(n, result.kind === "ran" || result.kind === "replay", body.toString());
      }
      idempotency.close();
    });
  `;
}
