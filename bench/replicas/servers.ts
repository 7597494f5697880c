import { readFileSync, readdirSync } from "node:fs";
import { Redis } from "ioredis";
import type { NewKey } from "../../plugins/contracts/accounts.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { openPostgres } from "../../src/store/postgres/postgres.ts";
import { createSeal } from "../../src/store/seal.ts";
import { openPostgresAccounts } from "../../test/plugins/billing/accounts/open-accounts.ts";
import { upgrade } from "../../test/plugins/billing/shipping/fixture.ts";
import { startPostgres } from "../../test/store/postgres-server.ts";
import { findProgram, installedPostgres } from "../../test/store/programs.ts";
import { openRedis } from "../../test/store/redis-server.ts";
import { runSql } from "../../test/store/servers.ts";
import { microsPerTick, statOf } from "../load/process.ts";

export const secret = "a secret of the gateways of this demonstration";

export interface SharedStores extends AsyncDisposable {
  readonly postgresUrl: string;
  /** Undefined if redis-server is not installed. */
  readonly redisUrl: string | undefined;
  postgresCpuMicros(): Promise<number>;
  redisCpuMicros(): Promise<number>;
}

/** Starts PostgreSQL with the tables of Sluice, and Redis if it is installed. Both are removed at the end. */
export async function startStores(): Promise<SharedStores> {
  await using starting = new AsyncDisposableStack();
  const postgres = starting.use(await startPostgres(await installedPostgres(), { durable: true }));
  await upgrade(postgres.url, createSeal(secret));
  const program = findProgram("redis-server");
  const redis = program === undefined ? undefined : starting.use(await openRedis(program));
  const stack = starting.move();
  return {
    postgresUrl: postgres.url,
    redisUrl: redis?.url,
    async postgresCpuMicros() {
      const [row] = await runSql(
        postgres.url,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'",
      );
      return treeCpuMicros(parentOf(Number(row?.["pid"])));
    },
    redisCpuMicros: () => (redis === undefined ? Promise.resolve(0) : redisCpu(redis.url)),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Returns the texts of the keys, which may read the ledger by default. */
export async function createKeys(
  url: string,
  count: number,
  more: Partial<Pick<NewKey, "cuLimit24hMilli" | "capabilities">> = {},
): Promise<string[]> {
  const metrics = createMetrics();
  const pool = openPostgres({ url, replica: "keys", metrics, statementMs: 4_000 });
  const { store } = await openPostgresAccounts(pool);
  try {
    const by = { actor: "operator", at: Date.now() };
    const { id: workspaceId } = await store.createWorkspace(
      { name: "shared", plan: "enterprise" },
      by,
    );
    const keys: string[] = [];
    for (let index = 0; index < count; index++) {
      const issued = await store.createKey(
        { workspaceId, name: "", environment: "dev", capabilities: ["ledger:read"], ...more },
        by,
      );
      if ("failed" in issued) throw new Error(issued.message);
      keys.push(issued.text);
    }
    return keys;
  } finally {
    await pool.close();
  }
}

function parentOf(pid: number): number {
  return Number(statOf(pid)[1] ?? 0);
}

/** User and system time of a process, of its running children, and of those that have ended. */
function treeCpuMicros(pid: number): number {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean),
  );
  const running = children.flatMap((child) => runningTicks(Number(child)));
  // This is read last, because it includes the time of children that have just ended.
  const own = statOf(pid).slice(11, 15).map(Number);
  return [...own, ...running].reduce((sum, ticks) => sum + ticks, 0) * microsPerTick;
}

function runningTicks(pid: number): number[] {
  try {
    return statOf(pid).slice(11, 13).map(Number);
  } catch {
    // The process has ended.
    return [];
  }
}

async function redisCpu(url: string): Promise<number> {
  const redis = new Redis(url);
  try {
    const text = await redis.info("cpu");
    const seconds = [...text.matchAll(/^used_cpu_(?:sys|user):([\d.]+)/gm)].map(([, value]) =>
      Number(value),
    );
    return seconds.reduce((sum, value) => sum + value, 0) * 1_000_000;
  } finally {
    redis.disconnect();
  }
}
