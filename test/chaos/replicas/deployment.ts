import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startModel } from "../../../bench/soak/upstreams.ts";
import { spawnGateway, type GatewayProcess } from "../../e2e/gateway-process.ts";
import { closed, listening, startRpcNode } from "../../e2e/rpc-node.ts";
import { upgrade } from "../../plugins/billing/shipping/fixture.ts";
import { startFaultProxy, type FaultProxy } from "../../store/fault-proxy.ts";
import { startPostgresPair, type PostgresPair } from "../../store/postgres-pair.ts";
import { type PostgresPrograms } from "../../store/programs.ts";
import { openRedis, type RedisServer } from "../../store/redis-server.ts";
import { openPgBouncer } from "../../store/servers.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { pipeline } from "./pipeline.ts";
import { RedisOutages } from "./redis-disruptions.ts";
import { now } from "./send.ts";

/** The system's programs that a campaign needs. The programs of PostgreSQL must include pg_basebackup. */
export interface CampaignPrograms {
  readonly postgres: PostgresPrograms;
  readonly pgbouncer: string;
  readonly redis: string;
  /** Path of the library that shifts the clock of a process. */
  readonly faketime: string;
}

/** A place for a replica. The process changes when it is killed. */
export interface Slot {
  /** The proxy between the replica and PostgreSQL, or PgBouncer. */
  readonly proxy: FaultProxy;
  name: string;
  /** URL of the last start, which may have ended. */
  url: string;
  process: GatewayProcess | undefined;
}

export interface Deployment extends AsyncDisposable {
  readonly postgres: PostgresPair;
  readonly redis: RedisServer;
  readonly slots: readonly Slot[];
  readonly transfers: ReadonlyMap<string, number>;
  readonly worked: () => readonly string[];
  readonly redisOutages: RedisOutages;
  readonly crashes: string[];
  readonly errors: Map<string, number>;
  /** Starts a replica, and tries again if it ends, as an orchestrator would. `hours`: offset of its clock. */
  start(slot: number, hours?: number): Promise<void>;
  kill(slot: number): Promise<void>;
}

/** The replicas use PostgreSQL directly, and the second one uses PgBouncer in transaction mode. */
export async function deploy(programs: CampaignPrograms, replicas: number): Promise<Deployment> {
  await using starting = new AsyncDisposableStack();
  const postgres = starting.use(await startPostgresPair(programs.postgres, { synchronous: true }));
  const bouncer = starting.use(await openPgBouncer(programs.pgbouncer, postgres.url));
  const redis = starting.use(await openRedis(programs.redis));
  const node = starting.use(
    await startRpcNode({ state_getStorageHash: () => `0x${"ab".repeat(32)}` }),
  );
  const model = starting.use(await startModel(1));
  model.calm();
  const transfers = new Map<string, number>();
  const effects = createServer((request, response) => {
    const to = request.url ?? "";
    transfers.set(to, (transfers.get(to) ?? 0) + 1);
    request.resume();
    response.end("done");
  });
  const effectsUrl = await listening(effects);
  starting.defer(() => closed(effects));
  const folder = await mkdtemp(join(tmpdir(), "sluice-campaign-"));
  starting.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  const file = join(folder, "pipeline.yaml");
  await writeFile(file, pipeline);
  const secret = "a secret of this campaign";
  await upgrade(postgres.url, createSeal(secret));

  const slots: Slot[] = [];
  for (let slot = 0; slot < replicas; slot++) {
    const { port } = new URL(slot === 1 ? bouncer.url : postgres.url);
    const proxy = starting.use(await startFaultProxy(Number(port)));
    slots.push({ proxy, name: "", url: "", process: undefined });
  }
  const crashes: string[] = [];
  const errors = new Map<string, number>();
  const redisOutages = new RedisOutages();
  let starts = 0;
  let isStarted = false;
  let isOver = false;
  const slotAt = (slot: number): Slot => {
    const found = slots[slot];
    if (found === undefined) throw new RangeError(`no slot ${slot}`);
    return found;
  };
  const read = (replica: string, line: string): void => {
    redisOutages.read(replica, line, now());
    if (!/"level":(50|60)/.test(line)) return;
    const message = /"msg":"([^"]*)"/.exec(line)?.[1] ?? line;
    errors.set(message, (errors.get(message) ?? 0) + 1);
  };
  const kill = async (slot: number): Promise<void> => {
    const { process } = slotAt(slot);
    slotAt(slot).process = undefined;
    process?.child.kill("SIGKILL");
    await process?.exited;
  };
  const start = async (slot: number, hours = 0): Promise<void> => {
    const place = slotAt(slot);
    const url = new URL(postgres.url);
    url.port = String(place.proxy.port);
    for (;;) {
      const name = `replica-${slot}-${++starts}`;
      const clock = { LD_PRELOAD: programs.faketime, FAKETIME_DONT_FAKE_MONOTONIC: "1" };
      const env = {
        DATABASE_URL: url.href,
        REDIS_URL: redis.url,
        DATA_DIR: join(folder, `data-${slot}`),
        REPLICA_NAME: name,
        GATEWAY_SECRET: secret,
        NODE_URL: node.url,
        MODEL_URL: model.url,
        EFFECTS_URL: effectsUrl,
        ...(hours !== 0 && { ...clock, FAKETIME: `${hours > 0 ? "+" : ""}${hours}h` }),
      };
      try {
        const process = await spawnGateway(file, env, { onLine: (line) => read(name, line) });
        void process.exited.then(([code, signal]) => {
          redisOutages.end(name, now());
          if (place.process === process && !isOver) {
            crashes.push(`${name} ended by itself: ${code ?? signal}`);
          }
        });
        Object.assign(place, { name, url: process.url, process });
        return;
      } catch (error) {
        redisOutages.end(name, now());
        // PostgreSQL may be unreachable for longer than a start waits.
        const text = String(error);
        const isTransient = /SLUICE_STORE_(UNREACHABLE|FAILED)/.test(text);
        if (!isTransient) crashes.push(`${name}: ${text}`);
        if (isOver || !(isTransient || isStarted)) throw error;
      }
    }
  };
  starting.defer(async () => {
    isOver = true;
    await Promise.all(slots.map((_, slot) => kill(slot)));
  });
  await Promise.all(slots.map((_, slot) => start(slot)));
  isStarted = true;
  const stack = starting.move();
  return {
    postgres,
    redis,
    slots,
    transfers,
    worked: () =>
      node.calls
        .filter(({ method }) => method === "state_getStorageHash")
        .map(({ params }) => Buffer.from(String(params?.[0]).slice(2), "hex").toString()),
    redisOutages,
    crashes,
    errors,
    start,
    kill,
    [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose](),
  };
}
