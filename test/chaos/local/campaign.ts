/**
 * Repeatedly kills a gateway and its PostgreSQL under load. At the end it checks that the charges of the journal equal
 * the rows of the database. The seed decides the faults and their order.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { readUsage } from "../../../plugins/billing/metering/read-usage.ts";
import { createRandom } from "../../../bench/soak/random.ts";
import { sluice, spawnGateway, type GatewayProcess } from "../../e2e/gateway-process.ts";
import { startRpcNode } from "../../e2e/rpc-node.ts";
import { startFaultProxy, type FaultProxy } from "../../store/fault-proxy.ts";
import { startPostgres } from "../../store/postgres-server.ts";
import { findProgram, type PostgresPrograms } from "../../store/programs.ts";
import { openPgBouncer, runSql } from "../../store/servers.ts";
import { faults, type Target } from "./faults.ts";

export interface CampaignOptions {
  readonly rounds: number;
  /** An integer that decides the faults, their order and their timing. */
  readonly seed: number;
  readonly postgres: PostgresPrograms;
  /** Called before each round. */
  readonly onRound?: (round: number, fault: string) => void;
}

export interface CampaignResult {
  /** Rounds by fault. */
  readonly rounds: Readonly<Record<string, number>>;
  readonly gatewayStarts: number;
  /** Starts of the gateway that used PgBouncer. */
  readonly throughPgBouncer: number;
  /** Number of whole answers that clients received. */
  readonly answers: number;
  readonly droppedReplies: number;
  /** Charges in the journal, and rows in PostgreSQL. */
  readonly charges: number;
  readonly rows: number;
  readonly missing: number;
  readonly doubled: number;
  /** Charges whose row has another amount or request id. */
  readonly different: number;
  /** Answers without exactly one charge. */
  readonly unpaid: number;
}

const method = "state_getStorageHash";
const callers = 4;

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const random = createRandom(options.seed);
  const below = (limit: number): number => random.int(limit);
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await startRpcNode({ [method]: () => `0x${"ab".repeat(32)}` }));
  const postgres = stack.use(await startPostgres(options.postgres, { durable: true }));
  const bouncer = findProgram("pgbouncer");
  const paths: { readonly proxy: FaultProxy; readonly url: string }[] = [];
  const addPath = async (url: string): Promise<void> => {
    const proxy = stack.use(await startFaultProxy(Number(new URL(url).port)));
    proxy.dropAfter = "sluice.post";
    const through = new URL(url);
    through.port = String(proxy.port);
    paths.push({ proxy, url: through.href });
  };
  await addPath(postgres.url);
  if (bouncer !== undefined) {
    await addPath(stack.use(await openPgBouncer(bouncer, postgres.url)).url);
  }
  const folder = await mkdtemp(join(tmpdir(), "sluice-chaos-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "pipeline.yaml");
  const dataDir = join(folder, "data");
  await writeFile(file, pipeline);
  const env = {
    DATA_DIR: dataDir,
    LEDGER_RPC_URL: node.url,
    GATEWAY_SECRET: "a secret of the campaign",
    DATABASE_URL: postgres.url,
  };
  sluice(["store", "upgrade", "--config", file], env);
  const key = issueKey(file, env);

  let gateway: GatewayProcess | undefined;
  let path = 0;
  let starts = 0;
  let bounced = 0;
  const answered = new Set<string>();
  let isOver = false;
  const call = async (lane: number): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      const id = `${starts}-${lane}-${n}`;
      const isWhole = gateway !== undefined && (await callOnce(gateway.url, key, id));
      if (isWhole) answered.add(id);
      else await wait(20);
    }
  };
  const target: Target = {
    postgres,
    proxy: () => paths[path]?.proxy ?? assert.fail("the path exists"),
    async killGateway() {
      const killed = gateway;
      gateway = undefined;
      killed?.child.kill("SIGKILL");
      await killed?.exited;
    },
    async startGateway() {
      path = below(paths.length);
      starts++;
      if (path === 1) bounced++;
      gateway = await spawnGateway(file, { ...env, DATABASE_URL: paths[path]?.url ?? "" });
    },
    async load(answers) {
      const end = answered.size + answers;
      while (answered.size < end) await wait(10);
    },
  };
  stack.defer(() => target.killGateway());
  await target.startGateway();
  const running = Array.from({ length: callers }, (_, lane) => call(lane));
  stack.defer(async () => {
    isOver = true;
    await Promise.all(running);
  });

  const rounds: Record<string, number> = {};
  let deck: string[] = [];
  for (let round = 1; round <= options.rounds; round++) {
    // Every fault occurs once before any occurs again, in an order that differs each time.
    if (deck.length === 0) deck = Object.keys(faults);
    const [name = ""] = deck.splice(below(deck.length), 1);
    options.onRound?.(round, name);
    rounds[name] = (rounds[name] ?? 0) + 1;
    await target.load(1 + below(100));
    await faults[name]?.(target, 1 + below(100));
  }
  await target.load(20);
  isOver = true;
  await Promise.all(running);
  const compared = await compare(dataDir, postgres.url, answered);
  return {
    rounds,
    gatewayStarts: starts,
    throughPgBouncer: bounced,
    answers: answered.size,
    droppedReplies: paths.reduce((sum, { proxy }) => sum + proxy.dropped, 0),
    ...compared,
  };
}

/** Waits at most a minute until the database has as many rows as the journal has charges, and compares them. */
async function compare(
  dataDir: string,
  url: string,
  answered: ReadonlySet<string>,
): Promise<
  Pick<CampaignResult, "charges" | "rows" | "missing" | "doubled" | "different" | "unpaid">
> {
  const charges = [...readUsage(dataDir)];
  for (let attempts = 0; attempts < 600; attempts++) {
    const [row] = await runSql(url, "SELECT count(*)::int AS n FROM sluice.charges");
    if (Number(row?.["n"]) >= charges.length) break;
    await wait(100);
  }
  const rows = await runSql(url, "SELECT id, request_id, used_cu_milli FROM sluice.usage");
  const found = new Map<unknown, Record<string, unknown>>();
  for (const row of rows) found.set(row["id"], row);
  const paid = new Map<string, number>();
  let missing = 0;
  let different = 0;
  for (const { id, requestId, usedMilliCu } of charges) {
    paid.set(requestId, (paid.get(requestId) ?? 0) + 1);
    const row = found.get(id);
    if (row === undefined) missing++;
    else if (row["request_id"] !== requestId || Number(row["used_cu_milli"]) !== usedMilliCu) {
      different++;
    }
  }
  return {
    charges: charges.length,
    rows: rows.length,
    missing,
    doubled: rows.length - found.size + Math.max(0, found.size - charges.length),
    different,
    unpaid: [...answered].filter((id) => paid.get(id) !== 1).length,
  };
}

/** Returns true if the whole answer arrived. */
async function callOnce(url: string, key: string, requestId: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v1/ledger/rpc`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "x-request-id": requestId,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: ["0x00"] }),
    });
    const body = await response.text();
    return response.status === 200 && body.includes("abab");
  } catch {
    // The process has ended.
    return false;
  }
}

function issueKey(file: string, env: Readonly<Record<string, string>>): string {
  const run = (...args: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
  const { id } = run("workspaces", "create", "--name", "chaos", "--plan", "enterprise");
  return run("keys", "create", "--workspace", id).key;
}

const pipeline = `
version: 1
secret: "\${GATEWAY_SECRET}"
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}" }
metering: { durability: local }
log: { level: silent }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams: { ledger: { urls: "\${LEDGER_RPC_URL}", cacheBytes: 0, singleFlight: false } }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;
