/** The ledger in PostgreSQL gives the same replies as MemoryLedger in the same random histories. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import type { LeaseRequest, PostRequest } from "../../../../plugins/billing/leases/ledger.ts";
import { postedInWindows } from "../../../../plugins/billing/leases/ledger-usage.ts";
import { MemoryLedger } from "../../../../plugins/billing/leases/memory-ledger.ts";
import { encodeCharges } from "../../../../plugins/billing/leases/postgres-ledger.ts";
import { chargeMigrations } from "../../../../plugins/billing/leases/schema.ts";
import { histories, runHistory } from "./histories.ts";
import { startPostgres } from "./private-postgres.ts";
import { correctParts } from "./world.ts";

const ledgerSchema = `CREATE SCHEMA sluice; ${chargeMigrations.map(({ sql }) => sql).join("\n")}`;

const testClock = `
CREATE TABLE sluice.test_clock (started bigint, now bigint);
INSERT INTO sluice.test_clock VALUES (0, 0);
CREATE OR REPLACE FUNCTION sluice.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT now FROM sluice.test_clock';
CREATE OR REPLACE FUNCTION sluice.started_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT started FROM sluice.test_clock';
`;

interface Recorded {
  readonly now: number;
  readonly call: string;
  readonly reply: unknown;
}

/** Records every call of a function, with its reply. */
class RecordingLedger extends MemoryLedger {
  readonly #clock: () => number;
  readonly #recorded: Recorded[];

  constructor(now: () => number, recorded: Recorded[]) {
    super(now);
    this.#clock = now;
    this.#recorded = recorded;
  }

  override register(name: string) {
    return this.#record(`credit_register('${name}', 'settled', 'test')`, super.register(name));
  }
  override feed(replica: number) {
    return this.#record(`credit_feed(${replica})`, super.feed(replica));
  }
  /** Every request arrives twice. */
  override lease(request: LeaseRequest) {
    const { replica, leaseNo, wants } = request;
    const call = `credit_lease(${replica}, ${leaseNo}, '${JSON.stringify(wants)}')`;
    const reply = this.#record(call, super.lease(request));
    this.#record(call, super.lease(request));
    return reply;
  }
  override post(request: PostRequest) {
    const { replica, first, last } = request;
    const call = `credit_post(${replica}, ${first}, ${last}, '${encodeCharges(request)}')`;
    const reply = this.#record(call, super.post(request));
    this.#record(call, super.post(request));
    return reply;
  }
  override fence(replica: number) {
    return this.#record(`credit_fence(${replica})`, super.fence(replica));
  }
  override leave(replica: number) {
    return this.#record(`credit_leave(${replica})`, super.leave(replica));
  }

  #record<T>(call: string, reply: T): T {
    this.#recorded.push({ now: this.#clock(), call, reply: structuredClone(reply) });
    return reply;
  }
}

function script(recorded: readonly Recorded[]): string {
  const tables =
    "replicas, sluice.charges, sluice.scopes, sluice.leases, sluice.key_steps, sluice.draws";
  const lines = [
    `TRUNCATE sluice.${tables} RESTART IDENTITY;`,
    `UPDATE sluice.test_clock SET started = ${recorded[0]?.now ?? 0};`,
  ];
  for (const { now, call } of recorded) {
    lines.push(
      `UPDATE sluice.test_clock SET now = ${now};`,
      call === totals ? call : `SELECT sluice.${call};`,
    );
  }
  return lines.join("\n");
}

/** Returns a reply in the form in which both ledgers can be compared. */
function comparable(reply: unknown): unknown {
  const plain: unknown = JSON.parse(JSON.stringify(reply));
  if (typeof plain === "object" && plain !== null && "recalls" in plain) {
    const recalls = plain.recalls as { scope: string }[];
    recalls.sort((left, right) => (left.scope < right.scope ? -1 : 1));
  }
  return plain;
}

/** Returns the tables as sums over the replicas, in the form of `totalsOf`. */
const totals = `
SELECT jsonb_build_object(
  'draws', (SELECT coalesce(jsonb_object_agg(name, amounts), '{}') FROM (
    SELECT workspace_id || ' ' || period, ARRAY[sum(amounts[1]), sum(amounts[2]), sum(amounts[3])]
    FROM sluice.draws GROUP BY 1) AS each (name, amounts)),
  'windows', (SELECT coalesce(jsonb_object_agg(key_id, used), '{}') FROM (
    SELECT DISTINCT key_id, sluice.window_sum(key_id, 'month', sluice.now_ms() / 3600000 - 720)
    FROM sluice.key_steps) AS each (key_id, used) WHERE used > 0),
  'leases', (SELECT count(*) FROM sluice.leases));
`;

function totalsOf(ledger: MemoryLedger, now: number): unknown {
  const draws: Record<string, unknown> = {};
  const windows: Record<string, number> = {};
  let leases = 0;
  for (const [id, scope] of ledger.scopes) {
    for (const [period, amounts] of scope.draws) draws[`${id} ${period}`] = amounts;
    const { month } = postedInWindows(scope, now);
    if (month > 0) windows[id] = month;
    leases += scope.leases.size;
  }
  return { draws, windows, leases };
}

interface Comparison {
  readonly recorded: readonly Recorded[];
  readonly replies: readonly string[];
}

/** Runs random histories against the ledger in memory, and the same calls against PostgreSQL. */
async function compare(
  run: (sql: string) => Promise<string[]>,
  kind: "failing" | "ordinary",
  numRuns: number,
): Promise<Comparison[]> {
  const all: Comparison[] = [];
  for (const steps of fc.sample(histories(kind, 150), { numRuns, seed: 21 })) {
    const recorded: Recorded[] = [];
    const ledger = (now: () => number) => new RecordingLedger(now, recorded);
    const world = runHistory(steps, { replicas: 3, parts: { ...correctParts, ledger } });
    recorded.push({ now: world.now, call: totals, reply: totalsOf(world.ledger, world.now) });
    all.push({ recorded, replies: await run(script(recorded)) });
  }
  return all;
}

function check({ recorded, replies }: Comparison): void {
  assert.equal(replies.length, recorded.length);
  for (const [at, { call, reply }] of recorded.entries()) {
    assert.deepEqual(comparable(JSON.parse(replies[at] ?? "")), comparable(reply), call);
  }
}

/** Changes of the functions that must be noticed. */
const changes = [
  ["AND posted = p_first - 1", ""],
  ["AND lease_no < p_lease_no", ""],
  ["r SET state = 'fenced'", "r SET state = 'gone'"],
  ["WHERE replica = ANY (v_ended)", "WHERE false"],
  ["v_reach := i", "v_reach := v_reach"],
  ["v_recall := v_recall + 1", "v_recall := v_recall + 2"],
  ["greatest(granted[place] - spent[place], 0)", "greatest(granted[place], 0)"],
] as const;

test("PostgreSQL gives the same replies as the ledger in memory", async (t) => {
  const run = await startPostgres(t);
  if (run === undefined) return;
  await run(ledgerSchema + testClock);
  for (const kind of ["failing", "ordinary"] as const) {
    for (const each of await compare(run, kind, 2)) check(each);
  }
  for (const [original, changed] of changes) {
    // A later script may replace the function.
    const schema = ledgerSchema.replaceAll(original, changed);
    assert.notEqual(schema, ledgerSchema, original);
    await run(`DROP SCHEMA sluice CASCADE; ${schema} ${testClock}`);
    // Either a reply differs, or the primary key of the charges refuses one that is posted twice.
    await assert.rejects(async () => (await compare(run, "failing", 6)).forEach(check), original);
  }
});
