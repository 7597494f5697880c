import { findProgram } from "../../../store/programs.ts";
import type { TestContext } from "node:test";
import { Client, types, type CustomTypesConfig } from "pg";
import { heldSql } from "../../../../plugins/billing/leases/ledger-statements.ts";
import { createPostgresLedger } from "../../../../plugins/billing/leases/postgres-ledger.ts";
import type {
  CreditLedger,
  KeyLimits,
  LeaseReply,
  Registered,
  ReplicaStatus,
  Want,
} from "../../../../plugins/billing/leases/ledger.ts";
import type { Postgres, RunSql } from "../../../../src/plugin.ts";
import { createSession } from "../../../../src/store/session.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { startFaultProxy, type FaultProxy } from "../../../store/fault-proxy.ts";
import { forgetServerStart, runSql, startPgBouncer } from "../../../store/servers.ts";
import { until } from "../shipping/fixture.ts";
import { preparedDatabase } from "./gateway-fixture.ts";

const limits: KeyLimits = {
  kind: "key",
  dayMilliCu: 100,
  monthMilliCu: Number.MAX_SAFE_INTEGER,
};

export interface Connection {
  run(sql: string): Promise<void>;
  register(): Promise<Registered>;
  lease(replica: number, leaseNo: number, want?: Partial<Want>): Promise<LeaseReply>;
  /** Posts charges of one milli-CU each, which the lease covers. */
  post(replica: number, first: number, charges: number): Promise<ReplicaStatus>;
  fence(replica: number): Promise<readonly number[]>;
}

interface Setup {
  /** The database without a proxy and without PgBouncer. */
  readonly database: string;
  readonly proxy: FaultProxy;
  readonly connect: () => Promise<Connection>;
  /** Number of charges, and what all replicas hold, in milli-CU. */
  readonly totals: () => Promise<{ readonly charges: number; readonly held: number }>;
}

/** Connects through PgBouncer, if it is installed. */
export async function setUp(t: TestContext): Promise<Setup> {
  const database = await preparedDatabase(t);
  await forgetServerStart(database);
  const hasPgBouncer = findProgram("pgbouncer") !== undefined || process.env["CI"] === "true";
  const url = (hasPgBouncer ? await startPgBouncer(t, database) : undefined) ?? database;
  const proxy = await startFaultProxy(Number(new URL(url).port));
  const clients: Client[] = [];
  t.after(async () => {
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    await proxy[Symbol.asyncDispose]();
  });
  return {
    database,
    proxy,
    async connect() {
      const through = new URL(url);
      through.port = String(proxy.port);
      const client = new Client({ connectionString: through.href, types: numberTypes });
      client.on("error", () => {});
      await client.connect();
      clients.push(client);
      return connectionOf(client);
    },
    async totals() {
      const [row] = await runSql(
        database,
        `SELECT (SELECT count(*)::int FROM sluice.charges) AS charges,
           (SELECT coalesce(sum(${heldSql("l")}), 0)::int FROM sluice.leases l) AS held`,
      );
      return { charges: Number(row?.["charges"]), held: Number(row?.["held"]) };
    },
  };
}

/** Reads bigint columns as numbers, as the pool of a gateway does. */
export const numberTypes: CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    // The types of `pg` declare one overload per type, and `any` as the result.
    (oid as number) === 20
      ? Number
      : (types.getTypeParser(oid, format) as (text: string) => unknown),
};

/** A database whose statements all run on one connection. `changed`: changes the texts of statements. */
export function databaseOn(client: Client, changed = (text: string): string => text): Postgres {
  const database: Postgres = {
    replica: "one",
    place: "the test's database",
    query: async (_lane, text, values = []) =>
      (await client.query(changed(text), [...values])).rows,
    transaction: () => Promise.reject(new Error("the ledger has no transactions")),
    separate: () => database,
  };
  return database;
}

/** A ledger whose looks run when they are needed and at no other time. `changed`: changes the texts of statements. */
export function ledgerOn(client: Client, changed?: (text: string) => string): CreditLedger {
  const database = databaseOn(client, changed);
  const query: RunSql = (text, values) => database.query("session", text, values);
  const session = createSession(query, manualClock());
  const ledger = createPostgresLedger(database, "test", session);
  const withLook = <T>(reply: T): T => {
    session.look().catch(() => {});
    return reply;
  };
  return {
    ...ledger,
    feed: (replica) => withLook(ledger.feed(replica)),
    fence: (replica) => withLook(ledger.fence(replica)),
  };
}

function connectionOf(client: Client): Connection {
  const ledger = ledgerOn(client);
  return {
    async run(sql) {
      await client.query(sql);
    },
    register: async () => ledger.register("one", "settled"),
    lease: async (replica, leaseNo, want = {}) =>
      ledger.lease({ replica, leaseNo, wants: [{ ...noWant, ...want }] }),
    post: async (replica, first, count) => {
      const charges = Array.from({ length: count }, () => charge);
      return ledger.post({ replica, first, last: first + count - 1, charges });
    },
    fence: async (replica) => ledger.fence(replica),
  };
}

const noWant: Want = {
  scope: "key_1",
  limits,
  isNew: true,
  grantedMilliCu: 0,
  slackMilliCu: 0,
  needsMilliCu: [],
  extraMilliCu: 0,
  epoch: 0,
  hasNewNeeds: false,
};

const charge = {
  keyId: "key_1",
  workspaceId: "ws_1",
  time: Date.now(),
  costMilliCu: 1,
  takenMilliCu: 0,
  keyTakenMilliCu: 1,
  details: {
    about: { requestId: "r" },
    line: { surface: "test", method: "m", costMilliCu: 1 },
  },
} as const;

export async function untilBlocked(database: string): Promise<void> {
  await until(async () => {
    const rows = await runSql(
      database,
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return rows.length > 0;
  });
}

export function grantedOf({ granted }: LeaseReply): number | undefined {
  return granted?.[0]?.grantedMilliCu;
}
