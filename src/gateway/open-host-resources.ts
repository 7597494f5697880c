import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";
import { openComputePool } from "../compute/pool.ts";
import type { Config } from "../config/config.ts";
import { createMetrics, type RenderedMetrics } from "../base/metrics.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import { KeptParts } from "../pipeline/load/kept-parts.ts";
import type { HostResources } from "../pipeline/load/host-resources.ts";
import { sharedSettings } from "../pipeline/load/shared-settings.ts";
import type { Clock, GatewayInfo, Log, Metrics, Seal, Session, Store, Threads } from "../plugin.ts";
import { HeldBytes } from "../memory/held-bytes.ts";
import { SharedCount, SharedCounts } from "../memory/shared-count.ts";
import { openClaims } from "../store/claims.ts";
import { createSession } from "../store/session.ts";
import { shippedTables } from "../pipeline/load/databases.ts";
import { openDataFolder } from "../store/data-folder.ts";
import { checkDataFolder } from "./check-data-folder.ts";
import { createPluginEntries } from "../store/plugin-storage.ts";
import { refuseMoved } from "../store/moved-marker.ts";
import type { PostgresPool } from "../store/postgres/postgres.ts";
import type { PostgresReplicas } from "../store/postgres/replicas.ts";
import type { RedisConnection } from "../store/redis/redis.ts";
import { createSeal, readOrCreateSecret } from "../store/seal.ts";
import { stateFileOf } from "../store/sql/state-file.ts";
import { openSqliteSql } from "../store/sql/sqlite-sql.ts";
import { serveStore } from "../store/threads/serve-store.ts";
import { storeOverThreads } from "../store/threads/thread-store.ts";
import { version } from "../base/version.ts";
import { replicasOfThreads } from "./threads/thread-replicas.ts";
import { heldByCallers, heldBytesCount, secretCall } from "./threads/thread-start.ts";

const mebibyte = 1024 * 1024;

/** Fraction of the memory of the process. The rest is for the gateway itself, its caches and copies of what it holds. */
const memoryShare = 1 / 4;

/** Fraction of V8's heap. Texts are held there, and V8 ends the process when the heap is full. */
const heapShare = 1 / 2;

const minHeldBytes = 16 * mebibyte;

export interface OpenHostResources extends HostResources {
  readonly metrics: RenderedMetrics;
  /** Publishes the shared settings of a reloaded pipeline.yaml. */
  readonly publishSettings: (config: Config) => Promise<void>;
}

interface OpenDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly gateway: GatewayInfo;
  /** The main thread has opened the store that the other threads use. */
  readonly threads?: Threads | undefined;
}

/**
 * Everything that is opened here is closed through `stack`, in reverse order. Throws StoreError if the data folder or
 * the database cannot be used, or if another gateway uses the data folder. Redis may be unreachable. With
 * `store.postgres`, the core needs no data folder, so it may be missing or read-only.
 */
export async function openHostResources(
  config: Config,
  { clock, log, gateway, threads }: OpenDeps,
  stack: ClosingStack,
): Promise<OpenHostResources> {
  const metrics = createMetrics();
  const bytes = threads && {
    total: SharedCount.open(threads, heldBytesCount),
    callers: new SharedCounts(threads, heldByCallers),
  };
  const maxBytes = config.server.unfinishedBodyBytes ?? defaultHeldBytes();
  const held = new HeldBytes(maxBytes, metrics, bytes);
  const shared = { clock, log, metrics };
  const opened = await openStore(config, { ...shared, threads }, stack);
  const { seal, sql, session, postgres } = opened;
  stack.add("looks at the store", () => session[Symbol.dispose]());
  const parts = new KeptParts();
  stack.defer(() => parts.close(stack.closer));
  const claims = await openClaims(sql("claims"), session, clock, log);
  stack.add("claims", () => claims.close());
  const compute = openComputePool(shared);
  stack.add("compute threads", () => compute.close());
  // Two threads for long work, so that decoding does not wait for the sum of a month, and two such sums do not wait for
  // each other. Work that a request waits for must not use them: see docs/operations.md, "Threads".
  const background = openComputePool({ ...shared, threads: 2, queue: 8, timeoutMs: 30_000 });
  stack.add("background threads", () => background.close());
  return {
    ...shared,
    held,
    claims,
    entries: createPluginEntries(sql("storage")),
    seal,
    store: {
      folder: config.store.data,
      sql,
      session,
      postgres: postgres?.database,
      redis: opened.redis,
      replicas: opened.replicas,
    },
    threads,
    compute: { run: (job) => compute.run(job), background },
    parts,
    gateway,
    publishSettings: async (next) => postgres?.replicas.setSettings(await sharedSettings(next)),
  };
}

interface OpenStore extends Pick<Store, "sql" | "replicas"> {
  readonly session: Session & Disposable;
  readonly seal: Seal;
  readonly postgres?: PostgresStore | undefined;
  readonly redis?: RedisConnection | undefined;
}

async function openStore(
  config: Config,
  { threads, ...deps }: Omit<StoreDeps, "seal"> & Pick<OpenDeps, "threads">,
  stack: ClosingStack,
): Promise<OpenStore> {
  const { clock } = deps;
  const { data: dataDir } = config.store;
  if (threads !== undefined && threads.index > 0) {
    const seal = createSeal(String(await threads.call(secretCall, undefined)));
    const replicas = replicasOfThreads(threads, clock);
    return { seal, replicas, ...storeOverThreads(threads, clock) };
  }
  if (config.store.postgres === undefined) {
    stack.use(openDataFolder(dataDir));
    await checkDataFolder(dataDir, deps, stack);
  }
  const secret = config.secret ?? readOrCreateSecret(dataDir);
  const seal = createSeal(secret);
  const postgres = await openPostgresStore(config, { seal, ...deps }, stack);
  const redis = await openRedis(config, { seal, ...deps }, stack);
  const sql = postgres?.sql ?? (await openState(dataDir, clock, stack));
  const session = postgres?.session ?? createSession(sql("session").query, clock);
  const replicas = threads === undefined ? postgres?.replicas : replicasOfThreads(threads, clock);
  if (threads !== undefined) {
    stack.use(threads.serve(secretCall, () => secret));
    stack.use(serveStore(threads, sql));
  }
  return { seal, postgres, redis, sql, session, replicas };
}

/** Rejects with StoreError. */
async function openState(
  dataDir: string,
  clock: Clock,
  stack: ClosingStack,
): Promise<Store["sql"]> {
  const state = await openSqliteSql(stateFileOf(dataDir, await shippedTables()), clock);
  stack.add("tables of the data folder", () => state.close());
  return () => state;
}

interface StoreDeps {
  readonly seal: Seal;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

const lookLimitMs = 2_000;

interface PostgresStore {
  readonly database: PostgresPool;
  readonly sql: Store["sql"];
  readonly session: Session & Disposable;
  readonly replicas: PostgresReplicas;
}

/** Returns undefined without `store.postgres`. Rejects with StoreError. The driver is imported only if it is used. */
async function openPostgresStore(
  config: Config,
  deps: StoreDeps,
  stack: ClosingStack,
): Promise<PostgresStore | undefined> {
  const { postgres: url } = config.store;
  if (url === undefined) {
    refuseMoved(config.store.data);
    return undefined;
  }
  const { openDatabase } = await import("./open-database.ts");
  const { postgresSql } = await import("../store/sql/postgres-sql.ts");
  const { PostgresReplicas } = await import("../store/postgres/replicas.ts");
  const database = await openDatabase(config, url, deps, stack);
  const settings = await sharedSettings(config);
  const { clock } = deps;
  // One connection of its own, so that looks do not wait for other statements, and a stop waits for the last look.
  const own = database.separate({ connections: 1, statementMs: lookLimitMs });
  const session = createSession(postgresSql(own, "session", clock).query, clock);
  const options = { ...deps, database: own, session, version, settings };
  const replicas = await PostgresReplicas.open(options);
  stack.add("list of gateways", () => replicas.close());
  return { database, sql: (lane) => postgresSql(database, lane, clock), session, replicas };
}

/** Returns undefined without `store.redis`. The client is imported only if it is used. */
async function openRedis(
  { store, environment }: Config,
  deps: StoreDeps,
  stack: ClosingStack,
): Promise<RedisConnection | undefined> {
  if (store.redis === undefined) return undefined;
  const { RedisConnection } = await import("../store/redis/redis.ts");
  const redis = await RedisConnection.open({ ...deps, url: store.redis, environment });
  stack.add("Redis", () => redis.close());
  return redis;
}

interface ProcessMemory {
  /** Limit of the container (cgroup v1 or v2) in bytes. 0 or more than `total` if there is none. */
  readonly constrained: number;
  readonly total: number;
  readonly heap: number;
}

function processMemory(): ProcessMemory {
  return {
    constrained: process.constrainedMemory(),
    total: totalmem(),
    heap: getHeapStatistics().heap_size_limit,
  };
}

export function defaultHeldBytes(memory: ProcessMemory = processMemory()): number {
  const { constrained, total, heap } = memory;
  const limit = constrained > 0 ? Math.min(constrained, total) : total;
  return Math.max(minHeldBytes, Math.floor(Math.min(limit * memoryShare, heap * heapShare)));
}
