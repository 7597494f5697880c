/**
 * The ledger in PostgreSQL: it gives the same replies as MemoryLedger in the same random histories, and its functions are
 * called on several connections at once and on connections that break.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { Client } from "pg";
import type {
  CreditLedger,
  LeaseRequest,
  PostRequest,
} from "../../../../plugins/billing/leases/ledger.ts";
import { MemoryLedger, usedOf } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { chargeMigrations } from "../../../../plugins/billing/leases/schema.ts";
import { postgresDialect } from "../../../../src/store/sql/dialect.ts";
import { createDatabase, runSql } from "../../../store/servers.ts";
import { testClock } from "../accounts/postgres/database.ts";
import { makeSilent } from "./gateway-fixture.ts";
import { histories, runHistory } from "./histories.ts";
import {
  type Connection,
  grantedOf,
  ledgerOn,
  numberTypes,
  setUp,
  untilBlocked,
} from "./ledger-connections.ts";
import { correctParts } from "./world.ts";

const ledgerSchema = `CREATE SCHEMA sluice; ${postgresDialect.functions}
${chargeMigrations.map(({ sql }) => sql).join("\n")}`;

interface Recorded {
  readonly now: number;
  readonly call: string;
  readonly send: (ledger: CreditLedger) => unknown;
  readonly reply: unknown;
}

class RecordingLedger extends MemoryLedger {
  readonly #clock: () => number;
  readonly #recorded: Recorded[];

  constructor(now: () => number, recorded: Recorded[]) {
    super(now);
    this.#clock = now;
    this.#recorded = recorded;
  }

  override register(name: string) {
    return this.#record(`register ${name}`, super.register(name), (to) =>
      to.register(name, "settled"),
    );
  }
  override feed(replica: number) {
    return this.#record(`feed ${replica}`, super.feed(replica), (to) => to.feed(replica));
  }
  /** Every request arrives twice. */
  override lease(request: LeaseRequest) {
    const call = `lease ${JSON.stringify(request)}`;
    const reply = this.#record(call, super.lease(request), (to) => to.lease(request));
    this.#record(call, super.lease(request), (to) => to.lease(request));
    return reply;
  }
  override post(request: PostRequest) {
    const call = `post ${request.replica} ${request.first}`;
    const reply = this.#record(call, super.post(request), (to) => to.post(request));
    this.#record(call, super.post(request), (to) => to.post(request));
    return reply;
  }
  override fence(replica: number) {
    return this.#record(`fence ${replica}`, super.fence(replica), (to) => to.fence(replica));
  }
  override leave(replica: number) {
    return this.#record(`leave ${replica}`, super.leave(replica), (to) => to.leave(replica));
  }

  #record<T>(call: string, reply: T, send: Recorded["send"]): T {
    this.#recorded.push({ now: this.#clock(), call, send, reply: structuredClone(reply) });
    return reply;
  }
}

function comparable(reply: unknown): unknown {
  const plain: unknown = JSON.parse(JSON.stringify(reply));
  if (typeof plain === "object" && plain !== null && "epochs" in plain) {
    const epochs = plain.epochs as { scope: string }[];
    epochs.sort((left, right) => (left.scope < right.scope ? -1 : 1));
  }
  return plain;
}

/** Returns the tables as sums over the replicas, in the form of `totalsOf`. */
const totalsQuery = `
SELECT jsonb_build_object(
  'months', (SELECT coalesce(jsonb_object_agg(name, used), '{}') FROM (
    SELECT scope || ' ' || step, sum(milli_cu)
    FROM sluice.used WHERE kind = 'period' GROUP BY 1) AS each (name, used)),
  'windows', (SELECT coalesce(jsonb_object_agg(scope, used), '{}') FROM (
    SELECT scope, sum(milli_cu) FROM sluice.used
    WHERE kind = 'month' AND step >= sluice.now_ms() / 3600000 - 720
    GROUP BY 1) AS each (scope, used) WHERE used > 0),
  'leases', (SELECT count(*) FROM sluice.leases)) AS totals;
`;

function totalsOf(ledger: MemoryLedger, now: number): unknown {
  const months: Record<string, number> = {};
  const windows: Record<string, number> = {};
  let leases = 0;
  for (const [id, scope] of ledger.scopes) {
    for (const [start, milliCu] of scope.months) months[`${id} ${start}`] = milliCu;
    const { monthMilliCu } = usedOf(scope, now);
    if (monthMilliCu > 0) windows[id] = monthMilliCu;
    leases += scope.leases.size;
  }
  return { months, windows, leases };
}

async function compare(
  client: Client,
  kind: "failing" | "ordinary",
  numRuns: number,
  changed?: (text: string) => string,
): Promise<void> {
  const postgres = ledgerOn(client, changed);
  for (const steps of fc.sample(histories(kind, 150), { numRuns, seed: 21 })) {
    const recorded: Recorded[] = [];
    const ledger = (now: () => number) => new RecordingLedger(now, recorded);
    const world = runHistory(steps, { replicas: 3, parts: { ...correctParts, ledger } });
    const tables = "replicas, sluice.charges, sluice.scopes, sluice.leases, sluice.used";
    await client.query(
      `TRUNCATE sluice.${tables} RESTART IDENTITY;
       SET sluice.started_ms = ${recorded[0]?.now ?? 0}`,
    );
    for (const { now, call, send, reply } of recorded) {
      await client.query(`UPDATE sluice.test_clock SET now = ${now}`);
      assert.deepEqual(comparable(await send(postgres)), comparable(reply), call);
    }
    const { rows } = await client.query<{ totals: unknown }>(totalsQuery);
    assert.deepEqual(rows[0]?.totals, totalsOf(world.ledger, world.now));
  }
}

/** Changes of the statements and of the functions that must be noticed. */
const changes = [
  ["AND posted = p_first - 1", ""],
  ["lease_no < $2 OR", "true OR"],
  ["r SET state = 'fenced'", "r SET state = 'gone'"],
  ["WHERE replica IN (SELECT id FROM ended)", "WHERE false"],
  ["ELSE known.spent END", "ELSE excluded.spent END"],
  ["l.epoch < s.epoch", "l.epoch <= s.epoch"],
  ["s.version + 1, epoch = d.epoch", "s.version + 1, epoch = s.epoch"],
  ["coalesce(s.epoch, 0)", "0"],
] as const;

test("PostgreSQL gives the same replies as the ledger in memory", async (t) => {
  const client = new Client({ connectionString: await createDatabase(t), types: numberTypes });
  client.on("error", () => {});
  await client.connect();
  t.after(() => client.end());
  await client.query(ledgerSchema + testClock);
  for (const kind of ["failing", "ordinary"] as const) await compare(client, kind, 2);
  for (const [original, changed] of changes) {
    let isFound = false;
    const change = (text: string): string => {
      isFound ||= text.includes(original);
      return text.replaceAll(original, changed);
    };
    await client.query(`DROP SCHEMA sluice CASCADE; ${change(ledgerSchema)} ${testClock}`);
    // Either a reply differs, or the primary key of the charges refuses one that is posted twice.
    await assert.rejects(() => compare(client, "failing", 4, change), original);
    assert.ok(isFound, original);
  }
});

for (const end of ["COMMIT", "ROLLBACK"] as const) {
  test(`a batch that is sent twice at once counts once, if the first ends with ${end}`, async (t) => {
    const { database, connect, totals } = await setUp(t);
    const [one, other] = [await connect(), await connect()];
    const { replica } = await one.register();
    await one.lease(replica, 1, { needsMilliCu: [10] });
    await one.run("BEGIN");
    assert.equal((await one.post(replica, 1, 3)).posted, 3);
    const again = other.post(replica, 1, 3);
    await untilBlocked(database);
    await one.run(end);
    assert.equal((await again).posted, 3);
    assert.deepEqual(await totals(), { charges: 3, held: 7 });
  });
}

test("a replica that posts is not fenced, and one that is fenced cannot post", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.lease(first, 1, { needsMilliCu: [10] });
  await makeSilent(database, first);
  await one.run("BEGIN");
  await one.post(first, 1, 2);
  assert.deepEqual(await other.fence(second), [], "its row is locked");
  await one.run("COMMIT");
  assert.deepEqual(await other.fence(second), [], "it has just sent a message");

  await makeSilent(database, first);
  await other.run("BEGIN");
  assert.deepEqual(await other.fence(second), [first]);
  const posting = one.post(first, 3, 2);
  await untilBlocked(database);
  await other.run("COMMIT");
  assert.deepEqual([(await posting).state, (await posting).posted], ["fenced", 2]);
  const leasing = await one.lease(first, 2, { needsMilliCu: [10] });
  assert.deepEqual([leasing.state, leasing.granted], ["fenced", undefined]);
  assert.deepEqual(await totals(), { charges: 2, held: 0 });
});

test("two leases of one scope at once get no more than its limit", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.run("BEGIN");
  assert.equal(grantedOf(await one.lease(first, 1, { needsMilliCu: [60] })), 60);
  const leasing = other.lease(second, 1, { needsMilliCu: [60, 40], hasNewNeeds: true });
  await untilBlocked(database);
  await one.run("COMMIT");
  assert.equal(grantedOf(await leasing), 40);
  assert.deepEqual((await leasing).granted?.[0]?.reached, {
    window: "24h",
    usedMilliCu: 100,
    limitMilliCu: 100,
    clearsAt: undefined,
  });
  assert.deepEqual(await totals(), { charges: 0, held: 100 });
});

test("a lease counts a charge once while its batch is committed", async (t) => {
  const { connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.lease(first, 1, { needsMilliCu: [60] });
  await one.run("BEGIN");
  await one.post(first, 1, 40);
  assert.equal(grantedOf(await other.lease(second, 1, { needsMilliCu: [41] })), 0);
  await one.run("COMMIT");
  assert.equal(grantedOf(await other.lease(second, 2, { needsMilliCu: [41] })), 0);
  assert.equal(grantedOf(await other.lease(second, 3, { needsMilliCu: [40] })), 40);
  assert.deepEqual(await totals(), { charges: 40, held: 60 });
});

test("a server process that ends in the middle leaves nothing, and the message is accepted again", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const one = await connect();
  const { replica } = await one.register();
  await one.lease(replica, 1, { needsMilliCu: [10] });
  const begun = {
    post: (on: Connection) => on.post(replica, 1, 2),
    lease: (on: Connection) => on.lease(replica, 2, { isNew: false, grantedMilliCu: 30 }),
  };
  for (const send of [begun.post, begun.lease]) {
    const broken = await connect();
    await broken.run("BEGIN");
    await send(broken);
    await runSql(
      database,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND state = 'idle in transaction'`,
    );
    await assert.rejects(broken.run("COMMIT"));
  }
  assert.deepEqual(await totals(), { charges: 0, held: 10 });
  const later = await connect();
  assert.equal((await begun.post(later)).posted, 2);
  assert.equal((await begun.lease(later)).leaseNo, 2);
  assert.deepEqual(await totals(), { charges: 2, held: 28 });
});

test("a message whose reply is lost after the commit has its effect once", async (t) => {
  const { database, proxy, connect, totals } = await setUp(t);
  const { replica } = await (await connect()).register();
  /** Sends a message whose reply is dropped, and then sends it again. `part`: a part of its statement. */
  const sendTwice = async <T>(part: string, send: (on: Connection) => Promise<T>): Promise<T> => {
    const broken = await connect();
    proxy.dropAfter = part;
    proxy.repliesToDrop = 1;
    await assert.rejects(send(broken));
    return send(await connect());
  };
  const leased = await sendTwice("SET lease_no", (on) =>
    on.lease(replica, 1, { needsMilliCu: [10] }),
  );
  assert.deepEqual([leased.leaseNo, leased.granted], [1, undefined], "it has been accepted");
  const restated = { isNew: false, grantedMilliCu: 0, needsMilliCu: [20] };
  assert.equal(grantedOf(await (await connect()).lease(replica, 2, restated)), 20);
  const posted = await sendTwice("sluice.credit_post", (on) => on.post(replica, 1, 5));
  assert.deepEqual([posted.state, posted.posted], ["live", 5]);
  assert.deepEqual(await totals(), { charges: 5, held: 15 });

  // The first registration holds nothing, and is fenced after a while.
  const second = await sendTwice("INSERT INTO sluice.replicas", (on) => on.register());
  await makeSilent(database, replica);
  await runSql(
    database,
    `UPDATE sluice.replicas SET heard_at = heard_at - 11000 WHERE id <> ${second.replica}`,
  );
  const fenced = await sendTwice("SET state = 'fenced'", (on) => on.fence(second.replica));
  assert.deepEqual(fenced, [], "the lost reply had them all");
  const states = await runSql(database, "SELECT state FROM sluice.replicas ORDER BY id");
  assert.deepEqual(
    states.map(({ state }) => state),
    ["fenced", "fenced", "live"],
  );
  assert.deepEqual(await totals(), { charges: 5, held: 0 });
});
