/** Opens the resources that outlive every generation: the data folder, the shared stores, claims, the compute pools. */
import { hostname } from "node:os";
import { openComputePool } from "../compute/pool.ts";
import type { Config } from "../config/config.ts";
import { createMetrics, type RenderedMetrics } from "../metrics.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import { KeptParts } from "../pipeline/load/kept-parts.ts";
import type { HostResources } from "../pipeline/load/host-resources.ts";
import type { Clock, GatewayInfo, Log, Metrics, Seal } from "../plugin.ts";
import { refuseIncompleteRestore } from "../store/backup/restore-marker.ts";
import { openClaims } from "../store/claims.ts";
import { lockStore } from "../store/lock.ts";
import type { PostgresPool } from "../store/postgres/postgres.ts";
import type { RedisConnection } from "../store/redis/redis.ts";
import { createSeal, readOrCreateSecret } from "../store/seal.ts";

export interface OpenHostResources extends HostResources {
  readonly metrics: RenderedMetrics;
}

/**
 * Everything that is opened here is closed through `stack`, in reverse order. Throws StoreError if the data folder
 * cannot be used or if another gateway uses it. The database is not contacted yet. Redis is, but it may be away.
 */
export async function openHostResources(
  config: Config,
  {
    clock,
    log,
    gateway,
  }: { readonly clock: Clock; readonly log: Log; readonly gateway: GatewayInfo },
  stack: ClosingStack,
): Promise<OpenHostResources> {
  const metrics = createMetrics();
  const shared = { clock, log, metrics };
  const { data: dataDir } = config.store;
  stack.use(lockStore(dataDir));
  refuseIncompleteRestore(dataDir);
  const postgres = await openDatabase(config, metrics, stack);
  const seal = createSeal(config.secret ?? readOrCreateSecret(dataDir));
  const redis = await openRedis(config, { ...shared, seal }, stack);
  const parts = new KeptParts();
  stack.defer(() => parts.close(stack.closer));
  const claims = openClaims(dataDir, clock);
  stack.add("claims", () => claims.close());
  const compute = openComputePool({ clock, metrics });
  stack.add("compute threads", () => compute.close());
  // A separate thread makes one report at a time, so that decoding does not wait for the sum of a month. Work that a
  // request waits for must not use it: see docs/operations.md, "Threads".
  const reports = openComputePool({ clock, metrics, threads: 1, queue: 8, timeoutMs: 30_000 });
  stack.add("threads of usage reports", () => reports.close());
  return {
    ...shared,
    claims,
    seal,
    store: { folder: dataDir, postgres, redis },
    compute: { run: (job) => compute.run(job), background: reports },
    parts,
    gateway,
  };
}

/** Returns undefined without `store.postgres`. The driver is imported only if it is used. */
async function openDatabase(
  { store }: Config,
  metrics: Metrics,
  stack: ClosingStack,
): Promise<PostgresPool | undefined> {
  if (store.postgres === undefined) return undefined;
  const { openPostgres } = await import("../store/postgres/postgres.ts");
  const replica = store.replica ?? hostname();
  const pool = openPostgres({ url: store.postgres, replica, metrics });
  stack.add("PostgreSQL", () => pool.close());
  return pool;
}

/** Returns undefined without `store.redis`. The client is imported only if it is used. */
async function openRedis(
  { store, environment }: Config,
  shared: {
    readonly clock: Clock;
    readonly log: Log;
    readonly metrics: Metrics;
    readonly seal: Seal;
  },
  stack: ClosingStack,
): Promise<RedisConnection | undefined> {
  if (store.redis === undefined) return undefined;
  const { RedisConnection } = await import("../store/redis/redis.ts");
  // One gateway uses the database, so it has the whole of each limit.
  const replicas = (): number => 1;
  const redis = await RedisConnection.open({ ...shared, url: store.redis, environment, replicas });
  stack.add("Redis", () => redis.close());
  return redis;
}
