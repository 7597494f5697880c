/** Tests of the embedded `idempotency`. test/contract/idempotency.ts has the tests of every implementation. */
import assert from "node:assert/strict";
import type { DatabaseSync } from "node:sqlite";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import type { IdempotencySlot, IdempotentRequest, StoredResponse } from "sluice-gateway/services";
import { openGatewayAccountStore } from "../../../../plugins/billing/accounts/embedded/embedded-account-store.ts";
import {
  openIdempotency,
  type IdempotencyService,
} from "../../../../plugins/billing/accounts/idempotency.ts";
import { embeddedSlots } from "../../../../plugins/billing/accounts/embedded/embedded-slots.ts";
import { findWorkspace } from "../../../../plugins/billing/accounts/embedded/workspaces.ts";
import type { EmbeddedAccountStore } from "../../../../plugins/billing/accounts/embedded/embedded-account-store.ts";
import { transaction } from "../../../../src/store/sqlite.ts";
import { atOnce } from "../../../../plugins/contracts/at-once.ts";
import { sourceUrl, startModule } from "../../../store/run-module.ts";
import { accountsFixture, day, type AccountsFixture } from "./fixture.ts";
import { keptLog } from "../../../test-log.ts";

const lease = 60_000;

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

interface Replica {
  readonly idempotency: IdempotencyService;
  readonly store: EmbeddedAccountStore;
  readonly lines: readonly string[];
}

interface Served extends AccountsFixture {
  readonly one: Replica;
  readonly other: Replica;
  /** Returns the purchased milli-CU as another process sees them. */
  readonly bought: () => number | undefined;
  /** Buys 5, on the connection of `replica`. */
  readonly buy: (replica: Replica) => void;
}

function serve(t: TestContext): Served {
  const fixture = accountsFixture(t);
  const replica = (): Replica => {
    const store = openGatewayAccountStore(fixture.folder, fixture.clock);
    fixture.open({ store });
    const { log, lines } = keptLog();
    const idempotency = openIdempotency({
      slots: embeddedSlots(store, fixture.clock),
      clock: fixture.clock,
      log,
    });
    t.after(() => idempotency.close());
    return { idempotency, store, lines };
  };
  const { id } = fixture.workspace;
  return {
    ...fixture,
    one: replica(),
    other: replica(),
    bought: () => findWorkspace(fixture.db, id)?.purchasedTotalMilliCu,
    buy: ({ store }) => void atOnce(store.purchase(id, 5, fixture.by())),
  };
}

function taken(answer: ReturnType<IdempotencyService["take"]>): IdempotencySlot {
  const result = atOnce(answer);
  assert.ok(result.kind === "taken", result.kind);
  return result.slot;
}

const slots = (db: DatabaseSync): number =>
  Number(db.prepare("SELECT count(*) AS n FROM idempotency_slots").get()?.["n"]);

test("more expired slots than one write deletes are deleted soon after", (t) => {
  const { one, other, clock, db } = serve(t);
  other.idempotency.close();
  atOnce(
    one.store.transaction(() => {
      for (let n = 0; n < 450; n++) {
        atOnce(one.idempotency.once({ ...request, key: `gateway_${n}` }, () => response));
      }
    }),
  );
  taken(one.idempotency.take(request));
  clock.jump(day - lease);
  clock.advance(lease);
  assert.equal(slots(db), 251);
  clock.advance(500);
  assert.equal(slots(db), 1);
  assert.deepEqual(one.lines, []);
});

test("while another process locks the store, no slot is taken, no work runs, and an error is logged", (t) => {
  const { one, db } = serve(t);
  const unavailable = { kind: "unavailable" };
  const slot = taken(one.idempotency.take({ ...request, key: "gateway_held" }));
  transaction(db, () => {
    assert.deepEqual(one.idempotency.take(request), unavailable);
    assert.deepEqual(
      one.idempotency.once(request, () => assert.fail("it ran")),
      unavailable,
    );
    assert.equal(slot.store(response), false);
  });
  assert.equal(one.lines.length, 3);
  taken(one.idempotency.take(request));
});

test("processes that race for the same keys make each purchase once, and all get its response", async (t) => {
  const { folder, workspace, db } = accountsFixture(t);
  const racers = [1, 2, 3].map(() => startModule(racer(folder, workspace.id)));
  const outputs = racers.map(({ stdout }) =>
    createInterface({ input: stdout! })[Symbol.asyncIterator](),
  );
  for (const lines of outputs) assert.equal((await lines.next()).value, "ready");
  for (const { stdin } of racers) stdin?.end("go");
  const printed = await Promise.all(outputs.map((lines) => Array.fromAsync(lines)));
  assert.equal(printed[0]?.length, 20);
  assert.deepEqual(printed, [printed[0], printed[0], printed[0]]);
  assert.equal(findWorkspace(db, workspace.id)?.purchasedTotalMilliCu, 20 * 5);
  assert.equal(slots(db), 20);
});

/** Buys 5 with each of 20 keys and prints each response. Retries while the store is locked. */
function racer(folder: string, workspaceId: string): string {
  return `
    const { openIdempotency } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/idempotency.ts"))});
    const { embeddedSlots } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/embedded/embedded-slots.ts"))});
    const { openGatewayAccountStore } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/embedded/embedded-account-store.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/clock.ts"))});
    const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
    const clock = systemClock;
    const store = openGatewayAccountStore(${JSON.stringify(folder)}, clock);
    const idempotency = openIdempotency({ slots: embeddedSlots(store, clock), clock, log });
    console.log("ready");
    await new Promise((go) => process.stdin.once("end", go).resume());
    for (let n = 0; n < 20; n++) {
      const request = { apiKeyId: "key_1", key: "gateway_" + n, fingerprint: "a".repeat(64) };
      let body;
      const work = () => {
        const by = { actor: "test", at: clock.now() };
        const { purchaseId } = store.purchase(${JSON.stringify(workspaceId)}, 5, by);
        body = Buffer.from(purchaseId);
        return { status: 200, contentType: undefined, contentEncoding: undefined, body };
      };
      let result;
      do result = idempotency.once(request, work);
      while (result.kind === "unavailable");
      if (result.kind === "replay") body = Buffer.from(result.response.body);
      console.log(n, result.kind === "ran" || result.kind === "replay", body.toString());
    }
    idempotency.close();
    store.close();
  `;
}

test("a transaction that SQLite rolled back keeps nothing, even if the work succeeds", (t) => {
  const { one, buy, bought, db } = serve(t);
  const result = one.idempotency.once(request, () => {
    buy(one);
    // Does what SQLite does on a full disk (https://sqlite.org/lang_transaction.html, "Response to errors within a
    // transaction").
    atOnce(one.store.write((writer) => writer.exec("ROLLBACK")));
    return response;
  });
  assert.deepEqual([result, bought(), slots(db)], [{ kind: "unavailable" }, 0, 0]);
});
