/**
 * Repeatedly kills, pauses and cuts off gateways with a journal (`durability: local`) and their PostgreSQL under load. At
 * the end it checks that the charges of the journals equal the rows of the database, and that the gateways together have
 * spent a limited budget to the last charge. The seed decides the faults and their order.
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
import { startAudit } from "../replicas/audit.ts";
import { faults, type Target } from "./faults.ts";

export interface CampaignOptions {
  readonly rounds: number;
  /** Number of gateways, each on a data folder of its own. */
  readonly replicas: number;
  /** An integer that decides the faults, their order and their timing. */
  readonly seed: number;
  readonly postgres: PostgresPrograms;
  /** Called before each round. */
  readonly onRound?: (round: number, fault: string) => void;
}

export interface CampaignResult extends Compared {
  /** Rounds by fault. */
  readonly rounds: Readonly<Record<string, number>>;
  readonly gatewayStarts: number;
  /** Starts of gateways that used PgBouncer. */
  readonly throughPgBouncer: number;
  /** Number of whole answers that clients received. */
  readonly answers: number;
  readonly droppedReplies: number;
  /** Number of commits after which what was charged and held of the limited budget exceeded it. */
  readonly exceeded: number;
  /** Part of the limited budget that is not charged at the end, in milli-CU. */
  readonly unspentMilliCu: number;
}

interface Compared {
  /** Charges in the journals, and rows in PostgreSQL. */
  readonly charges: number;
  readonly rows: number;
  readonly missing: number;
  readonly doubled: number;
  /** Charges whose row has another amount or request id. */
  readonly different: number;
  /** Answers without exactly one charge. */
  readonly unpaid: number;
}

/** Returns true if a campaign has kept all promises. */
export function isExact(result: CampaignResult): boolean {
  const { charges, rows, missing, doubled, different, unpaid, exceeded, unspentMilliCu } = result;
  const wrong = missing + doubled + different + unpaid + exceeded;
  return wrong === 0 && rows === charges && unspentMilliCu >= 0 && unspentMilliCu < priceMilliCu;
}

const method = "state_getStorageHash";
/** The limited budget, and the price of a call that spends it. */
const budgetMilliCu = 1_000_000;
const priceMilliCu = 700;
const callersPerGateway = 3;
/**
 * A load that cannot make progress ends after this time, for example because PostgreSQL is unreachable for too long.
 */
const loadMs = 5_000;

interface Gateway {
  readonly dataDir: string;
  process: GatewayProcess | undefined;
  /** The proxy between the gateway and PostgreSQL, or PgBouncer. */
  proxy: FaultProxy;
}

export async function runCampaign(options: CampaignOptions): Promise<CampaignResult> {
  const random = createRandom(options.seed);
  const below = (limit: number): number => random.int(limit);
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await startRpcNode({ [method]: () => `0x${"ab".repeat(32)}` }));
  const postgres = stack.use(await startPostgres(options.postgres, { durable: true }));
  const bouncer = findProgram("pgbouncer");
  const urls = [postgres.url];
  if (bouncer !== undefined) urls.push(stack.use(await openPgBouncer(bouncer, postgres.url)).url);
  const folder = await mkdtemp(join(tmpdir(), "sluice-chaos-"));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "pipeline.yaml");
  await writeFile(file, pipeline);
  const env = {
    DATA_DIR: join(folder, "none"),
    LEDGER_RPC_URL: node.url,
    GATEWAY_SECRET: "a secret of the campaign",
    DATABASE_URL: postgres.url,
  };
  sluice(["store", "upgrade", "--config", file], env);
  const ample = issueKey(file, env, "enterprise");
  const limited = issueKey(file, env, "free");
  await startAudit(postgres.url, [
    { id: limited.workspace, kind: "workspace", limitMilliCu: budgetMilliCu, isFixed: true },
  ]);

  const proxies: FaultProxy[] = [];
  let starts = 0;
  let bounced = 0;
  const start = async (gateway: Gateway): Promise<void> => {
    const way = below(urls.length);
    starts++;
    bounced += way;
    const through = new URL(urls[way] ?? "");
    gateway.proxy = stack.use(await startFaultProxy(Number(through.port)));
    gateway.proxy.dropAfter = "sluice.credit_post";
    proxies.push(gateway.proxy);
    through.port = String(gateway.proxy.port);
    const own = { DATA_DIR: gateway.dataDir, DATABASE_URL: through.href };
    gateway.process = await spawnGateway(file, { ...env, ...own });
  };
  const kill = async (gateway: Gateway): Promise<void> => {
    const killed = gateway.process;
    gateway.process = undefined;
    killed?.child.kill("SIGKILL");
    await killed?.exited;
  };
  const none = stack.use(await startFaultProxy(Number(new URL(postgres.url).port)));
  const gateways = Array.from({ length: options.replicas }, (_, place): Gateway => {
    return { dataDir: join(folder, `data-${place}`), process: undefined, proxy: none };
  });
  stack.defer(() => Promise.all(gateways.map(kill)).then(() => {}));
  await Promise.all(gateways.map(start));

  const answered = new Set<string>();
  let isOver = false;
  let calls = 0;
  const callTo = async ({ process }: Gateway, isLimited: boolean): Promise<number> => {
    const id = `request-${++calls}`;
    const key = isLimited ? limited.key : ample.key;
    const path = isLimited ? "/limited" : "/v1/ledger/rpc";
    const status = process === undefined ? 0 : await callOnce(`${process.url}${path}`, key, id);
    if (status === 200) answered.add(id);
    return status;
  };
  const load = async (gateway: Gateway, lane: number): Promise<void> => {
    for (let n = 0; !isOver; n++) {
      if ((await callTo(gateway, (n + lane) % 3 === 0)) !== 200) await wait(20);
    }
  };
  const running = gateways.flatMap((gateway) =>
    Array.from({ length: callersPerGateway }, (_, lane) => load(gateway, lane)),
  );
  stack.defer(async () => {
    isOver = true;
    await Promise.all(running);
  });
  const targetOf = (gateway: Gateway): Target => ({
    postgres,
    proxy: () => gateway.proxy,
    killGateway: () => kill(gateway),
    startGateway: () => start(gateway),
    async pauseGateway(ms) {
      gateway.process?.child.kill("SIGSTOP");
      await wait(ms);
      gateway.process?.child.kill("SIGCONT");
    },
    async load(answers) {
      const end = answered.size + answers;
      const until = performance.now() + loadMs;
      while (answered.size < end && performance.now() < until) await wait(10);
    },
  });

  const rounds: Record<string, number> = {};
  let deck: string[] = [];
  for (let round = 1; round <= options.rounds; round++) {
    // Every fault occurs once before any occurs again, in an order that differs each time.
    if (deck.length === 0) deck = Object.keys(faults);
    const [name = ""] = deck.splice(below(deck.length), 1);
    const target = targetOf(gateways[below(gateways.length)] ?? assert.fail("there is a gateway"));
    options.onRound?.(round, name);
    rounds[name] = (rounds[name] ?? 0) + 1;
    await target.load(1 + below(100));
    await faults[name]?.(target, 1 + below(100));
  }
  isOver = true;
  await Promise.all(running);
  for (let turns = 0; turns < 10_000; turns++) {
    const statuses = await Promise.all(gateways.map((gateway) => callTo(gateway, true)));
    // Every gateway serves again, and refuses because the budget is spent.
    if (statuses.every((status) => status === 429)) break;
    if (!statuses.includes(200)) await wait(50);
  }
  const compared = await compare(
    gateways.map(({ dataDir }) => dataDir),
    postgres.url,
    answered,
  );
  const [spent] = await runSql(
    postgres.url,
    `SELECT coalesce(sum(used_cu_milli), 0)::int AS spent, (SELECT count(*)::int FROM audit.exceeded) AS exceeded
     FROM sluice.usage WHERE workspace_id = '${limited.workspace}'`,
  );
  return {
    rounds,
    gatewayStarts: starts,
    throughPgBouncer: bounced,
    answers: answered.size,
    droppedReplies: proxies.reduce((sum, { dropped }) => sum + dropped, 0),
    exceeded: Number(spent?.["exceeded"]),
    unspentMilliCu: budgetMilliCu - Number(spent?.["spent"]),
    ...compared,
  };
}

/** Waits at most a minute until the database has as many rows as the journal has charges, and compares them. */
async function compare(
  dataDirs: readonly string[],
  url: string,
  answered: ReadonlySet<string>,
): Promise<Compared> {
  const charges = dataDirs.flatMap((dataDir) => [...readUsage(dataDir)]);
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

/** Returns the status of an answer that arrived completely, or 0. */
async function callOnce(url: string, key: string, requestId: string): Promise<number> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        "x-request-id": requestId,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: ["0x00"] }),
    });
    const body = await response.text();
    return response.status !== 200 || body.includes("abab") ? response.status : 0;
  } catch {
    // The process has ended.
    return 0;
  }
}

function issueKey(
  file: string,
  env: Readonly<Record<string, string>>,
  plan: string,
): { readonly workspace: string; readonly key: string } {
  const run = (...args: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
  const { id } = run("workspaces", "create", "--name", "chaos", "--plan", plan);
  return { workspace: id, key: run("keys", "create", "--workspace", id).key };
}

const pipeline = `
version: 1
secret: "\${GATEWAY_SECRET}"
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}" }
metering: { durability: local }
log: { level: silent }
plans:
  enterprise: { rps: 100000, includedCu: 1000000000 }
  free: { rps: 100000, includedCu: ${budgetMilliCu / 1000} }
upstreams:
  node: { urls: "\${LEDGER_RPC_URL}" }
  ledger: { urls: "\${LEDGER_RPC_URL}", cacheBytes: 0, singleFlight: false }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
  - path: /limited
    methods: [POST]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: ${priceMilliCu} } }]
    to: { forward: { upstream: node } }
`;
