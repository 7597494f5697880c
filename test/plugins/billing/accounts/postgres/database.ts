/** A database with all tables, whose clock the test moves, and pools on it. */
import { createMetrics } from "../../../../../src/base/metrics.ts";
import { openPostgres, type PostgresPool } from "../../../../../src/store/postgres/postgres.ts";
import { runSql } from "../../../../store/servers.ts";
import { createUpgradedDatabase } from "../../../../store/upgraded-database.ts";

interface TestContextLike {
  after(run: () => Promise<void>): void;
}

export interface AccountsDatabase {
  readonly url: string;
  /** Opens a pool, which is closed after the test. `port`: that of a proxy. */
  open(options?: { readonly port?: number; readonly statementMs?: number }): TestPool;
  setTime(ms: number): Promise<void>;
}

export interface TestPool extends PostgresPool {
  idle(): Promise<void>;
}

export const testClock = `
CREATE TABLE sluice.test_clock (now bigint);
INSERT INTO sluice.test_clock VALUES (0);
CREATE OR REPLACE FUNCTION sluice.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT now FROM sluice.test_clock';
`;

/** `port`: the port through which the pools connect, if it is not the one of the server. */
export async function accountsDatabase(
  t: TestContextLike,
  { now, port }: { readonly now?: number; readonly port?: number } = {},
): Promise<AccountsDatabase> {
  const url = await createUpgradedDatabase(t, "test");
  const pools = new Set<PostgresPool>();
  t.after(async () => {
    for (const pool of pools) await pool.close();
  });
  const open: AccountsDatabase["open"] = (options = {}) => {
    const at = new URL(url);
    const { port: own = port, statementMs } = options;
    if (own !== undefined) at.port = String(own);
    const pool = openPostgres({
      url: at.href,
      replica: "test",
      metrics: createMetrics(),
      ...(statementMs !== undefined && { statementMs }),
    });
    pools.add(pool);
    return countStatements(pool);
  };
  const setTime = async (ms: number): Promise<void> => {
    await runSql(url, `UPDATE sluice.test_clock SET now = ${ms}`);
  };
  if (now !== undefined) {
    await runSql(url, testClock);
    await setTime(now);
  }
  return { url, open, setTime };
}

function countStatements(pool: PostgresPool): TestPool {
  let running = 0;
  const count = async <T>(work: Promise<T>): Promise<T> => {
    running++;
    try {
      return await work;
    } finally {
      running--;
    }
  };
  return {
    ...pool,
    query: (...args) => count(pool.query(...args)),
    transaction: (lane, work) => count(pool.transaction(lane, work)),
    async idle() {
      await new Promise(setImmediate);
      while (running > 0) await new Promise(setImmediate);
    },
  };
}
