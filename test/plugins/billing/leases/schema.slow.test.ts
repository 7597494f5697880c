/** The ledger in PostgreSQL gives the same replies as MemoryLedger in the same random histories. */
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
import { createDatabase } from "../../../store/servers.ts";
import { testClock } from "../accounts/postgres/database.ts";
import { histories, runHistory } from "./histories.ts";
import { ledgerOn, numberTypes } from "./ledger-connections.ts";
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
const totals = `
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
    const { rows } = await client.query<{ totals: unknown }>(totals);
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
