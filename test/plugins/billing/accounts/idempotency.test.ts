/**
 * Tests of `idempotency` of the service `accounts`: every row of the specification's table, with two gateways that share a
 * store.
 */
import assert from "node:assert/strict";
import type { DatabaseSync } from "node:sqlite";
import { createInterface } from "node:readline";
import { test, type TestContext } from "node:test";
import type { IdempotencySlot, IdempotentRequest, StoredResponse } from "sluice-gateway/services";
import {
  openIdempotency,
  type IdempotencyService,
} from "../../../../plugins/billing/accounts/idempotency.ts";
import { findWorkspace, purchase } from "../../../../plugins/billing/accounts/workspaces.ts";
import { transaction } from "../../../../src/store/sqlite.ts";
import { sourceUrl, startModule } from "../../../store/run-module.ts";
import { accountsFixture, day, hour, type AccountsFixture } from "./fixture.ts";

const lease = 60_000;
const inFlight = { kind: "inFlight" };
const ran = { kind: "ran" };

const request: IdempotentRequest = {
  apiKeyId: "key_1",
  key: "gateway_a",
  fingerprint: "a".repeat(64),
};
const another: IdempotentRequest = { ...request, fingerprint: "b".repeat(64) };
const response: StoredResponse = {
  status: 201,
  contentType: "text/plain",
  contentEncoding: "br",
  body: Uint8Array.of(0, 255, 10),
};
const replay = { kind: "replay", response };

interface Replica {
  readonly idempotency: IdempotencyService;
  /** The connection that the replica writes on. */
  readonly write: <T>(work: (db: DatabaseSync) => T) => T;
  readonly lines: string[];
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
    const accounts = fixture.open();
    const lines: string[] = [];
    const line = (_: object, message: string): void => void lines.push(message);
    const log = { debug: line, info: line, warn: line, error: line, child: () => log };
    const idempotency = openIdempotency({ accounts, clock: fixture.clock, log });
    t.after(() => idempotency.close());
    return { idempotency, write: (work) => accounts.write(work), lines };
  };
  const { id } = fixture.workspace;
  return {
    ...fixture,
    one: replica(),
    other: replica(),
    bought: () => findWorkspace(fixture.db, id)?.purchasedTotalCuMilli,
    buy: ({ write }) => void write((db) => purchase(db, id, 5, fixture.by())),
  };
}

function taken(result: ReturnType<IdempotencyService["take"]>): IdempotencySlot {
  assert.ok(result.kind === "taken", result.kind);
  return result.slot;
}

const slots = (db: DatabaseSync): number =>
  Number(db.prepare("SELECT count(*) AS n FROM idempotency_slots").get()?.["n"]);

test("a request in flight is a conflict for all others, with any body and on any replica", (t) => {
  const { one, other } = serve(t);
  taken(one.idempotency.take(request));
  for (const { idempotency } of [one, other]) {
    assert.deepEqual(idempotency.take(request), inFlight);
    assert.deepEqual(idempotency.take(another), inFlight);
    assert.deepEqual(
      idempotency.once(request, () => assert.fail("it ran")),
      inFlight,
    );
  }
});

test("a slot belongs to one API key and one idempotency key", (t) => {
  const { one } = serve(t);
  taken(one.idempotency.take(request));
  taken(one.idempotency.take({ ...request, apiKeyId: "key_2" }));
  taken(one.idempotency.take({ ...request, key: "gateway_A" }));
});

test("every replica replays a stored response byte for byte for 24 hours, and then the slot is absent", (t) => {
  const { one, other, clock, db } = serve(t);
  assert.equal(taken(one.idempotency.take(request)).store(response), true);
  clock.advance(day - 1);
  for (const { idempotency } of [one, other]) {
    assert.deepEqual(idempotency.take(request), replay);
    assert.deepEqual(idempotency.take(another), { kind: "mismatch" });
  }
  clock.jump(1);
  taken(other.idempotency.take(another)).store(response);
  assert.deepEqual(one.idempotency.take(request), { kind: "mismatch" });
  clock.advance(day + lease);
  assert.equal(slots(db), 0);
});

test("more expired slots than one write deletes are deleted soon after", (t) => {
  const { one, other, clock, db } = serve(t);
  other.idempotency.close();
  one.write((writer) =>
    transaction(writer, () => {
      for (let n = 0; n < 450; n++) {
        one.idempotency.once({ ...request, key: `gateway_${n}` }, () => response);
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

test("a response without content type and without body is replayed as such", (t) => {
  const { one } = serve(t);
  const empty = {
    status: 204,
    contentType: undefined,
    contentEncoding: undefined,
    body: new Uint8Array(),
  };
  taken(one.idempotency.take(request)).store(empty);
  assert.deepEqual(one.idempotency.take(request), { kind: "replay", response: empty });
});

test("a released slot is absent", (t) => {
  const { one, other, db } = serve(t);
  taken(one.idempotency.take(request)).release();
  assert.equal(slots(db), 0);
  taken(other.idempotency.take(another));
});

test("a living owner keeps its slot for any length of time", (t) => {
  const { one, other, clock } = serve(t);
  const slot = taken(one.idempotency.take(request));
  clock.advance(hour);
  assert.deepEqual(other.idempotency.take(request), inFlight);
  assert.equal(slot.store(response), true);
  assert.deepEqual(other.idempotency.take(request), replay);
});

test("the slot of a dead owner is free after its lease, and later calls of that owner have no effect", (t) => {
  const { one, other, clock } = serve(t);
  const slot = taken(one.idempotency.take(request));
  one.idempotency.close();
  clock.advance(lease - 1);
  assert.deepEqual(other.idempotency.take(request), inFlight);
  clock.advance(1);
  const next = taken(other.idempotency.take(another));
  assert.equal(slot.store(response), false);
  slot.release();
  assert.deepEqual(one.idempotency.take(request), inFlight);
  next.store(response);
  assert.deepEqual(one.idempotency.take(another), replay);
});

test("the slot, the effect and the response are one transaction", (t) => {
  const { one, other, bought, buy, db } = serve(t);
  const result = one.idempotency.once(request, () => {
    buy(one);
    assert.deepEqual([bought(), slots(db)], [0, 0], "nobody sees a part of it");
    return response;
  });
  assert.deepEqual([result, bought(), slots(db)], [ran, 5, 1]);
  for (const { idempotency } of [one, other]) {
    assert.deepEqual(
      idempotency.once(request, () => assert.fail("it ran again")),
      replay,
    );
    assert.deepEqual(
      idempotency.once(another, () => assert.fail("it ran again")),
      { kind: "mismatch" },
    );
  }
});

test("work that releases its slot is committed and may run again", (t) => {
  const { one, bought, buy, db } = serve(t);
  for (const sum of [5, 10]) {
    const result = one.idempotency.once(request, () => {
      buy(one);
      return "release";
    });
    assert.deepEqual([result, bought(), slots(db)], [ran, sum, 0]);
  }
});

test("work that returns undo or throws is rolled back completely", (t) => {
  const { one, bought, buy, db } = serve(t);
  const undone = one.idempotency.once(request, () => {
    buy(one);
    return "undo";
  });
  assert.deepEqual([undone, bought(), slots(db)], [ran, 0, 0]);
  const bug = new Error("a bug");
  const throwing = (): never => {
    buy(one);
    throw bug;
  };
  assert.throws(() => one.idempotency.once(request, throwing), bug);
  assert.deepEqual([bought(), slots(db), one.lines], [0, 0, []]);
  assert.deepEqual(
    one.idempotency.once(request, () => response),
    ran,
  );
});

test("an expired slot is used again by a request in a transaction", (t) => {
  const { one, clock } = serve(t);
  one.idempotency.once(request, () => response);
  clock.jump(day);
  const later = { ...response, status: 409 };
  assert.deepEqual(
    one.idempotency.once(another, () => later),
    ran,
  );
  assert.deepEqual(one.idempotency.take(another), { kind: "replay", response: later });
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
  const told = await Promise.all(outputs.map((lines) => Array.fromAsync(lines)));
  assert.equal(told[0]?.length, 20);
  assert.deepEqual(told, [told[0], told[0], told[0]]);
  assert.equal(findWorkspace(db, workspace.id)?.purchasedTotalCuMilli, 20 * 5);
  assert.equal(slots(db), 20);
});

/** Buys 5 with each of 20 keys and prints each response. Retries while the store is locked. */
function racer(folder: string, workspaceId: string): string {
  return `
    const { openAccounts } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/accounts.ts"))});
    const { openIdempotency } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/idempotency.ts"))});
    const { purchase } = await import(${JSON.stringify(sourceUrl("plugins/billing/accounts/workspaces.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/clock.ts"))});
    const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
    const plan = { rps: 1, includedCuMilli: 0 };
    const plans = { free: plan, developer: plan, startup: plan, enterprise: plan };
    const [dataDir, clock] = [${JSON.stringify(folder)}, systemClock];
    const accounts = openAccounts({ dataDir, environment: "dev", plans, clock, log });
    const idempotency = openIdempotency({ accounts, clock, log });
    console.log("ready");
    await new Promise((go) => process.stdin.once("end", go).resume());
    for (let n = 0; n < 20; n++) {
      const request = { apiKeyId: "key_1", key: "gateway_" + n, fingerprint: "a".repeat(64) };
      let body;
      const work = () => {
        const by = { actor: "test", at: clock.now() };
        const { purchaseId } = accounts.write((db) => purchase(db, ${JSON.stringify(workspaceId)}, 5, by));
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
    accounts.close();
  `;
}

test("a transaction that SQLite rolled back keeps nothing, even if the work succeeds", (t) => {
  const { one, buy, bought, db } = serve(t);
  const result = one.idempotency.once(request, () => {
    buy(one);
    // Does what SQLite does on a full disk (https://sqlite.org/lang_transaction.html, "Response to errors within a
    // transaction").
    one.write((writer) => writer.exec("ROLLBACK"));
    return response;
  });
  assert.deepEqual([result, bought(), slots(db)], [{ kind: "unavailable" }, 0, 0]);
});
