/**
 * Shows several gateways that share one budget: PostgreSQL (from an npm package if it is not installed), Redis if it is
 * installed, a node, three gateways and a small load balancer. Spends the budget of a key through all gateways, and
 * runs until Ctrl-C.
 *
 *   npm run replicas [-- --once]    (--once: exit when the budget is spent)
 */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { spawnGateway } from "../../test/e2e/gateway-process.ts";
import { runSql } from "../../test/store/servers.ts";
import { startPeer } from "../load/process.ts";
import { createKeys, secret, startStores } from "./servers.ts";

const pipelineFile = join(import.meta.dirname, "../../pipeline.yaml");
const path = "/v1/ledger/rpc";
const call = { jsonrpc: "2.0", id: 1, method: "system_health", params: [] };
const budgetMilliCu = 3_000;

const { values } = parseArgs({ options: { once: { type: "boolean", default: false } } });
const stopped = Promise.withResolvers<void>();
process.once("SIGINT", stopped.resolve);
process.once("SIGTERM", stopped.resolve);
if (values.once) stopped.resolve();
await run();

async function run(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "sluice-replicas-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const stores = stack.use(await startStores());
  console.log(`PostgreSQL runs at ${stores.postgresUrl}`);
  console.log(
    stores.redisUrl === undefined ? "Redis is not installed" : `Redis runs at ${stores.redisUrl}`,
  );
  const nodeCommand = [process.execPath, join(import.meta.dirname, "../load/mock-node.ts")];
  const node = stack.use(await startPeer(nodeCommand, { core: 0 }));
  const urls: string[] = [];
  for (const name of ["one", "two", "three"]) {
    const gateway = await spawnGateway(pipelineFile, {
      DATABASE_URL: stores.postgresUrl,
      REDIS_URL: stores.redisUrl ?? "",
      GATEWAY_SECRET: secret,
      REPLICA_NAME: name,
      DATA_DIR: join(folder, name),
      LEDGER_RPC_URL: `http://127.0.0.1:${node.port}`,
    });
    stack.defer(async () => {
      gateway.child.kill("SIGTERM");
      await gateway.exited;
    });
    console.log(`gateway ${name} runs at ${gateway.url}, dashboard ${gateway.adminUrl}/dashboard`);
    urls.push(gateway.url);
  }
  const balancer = await startBalancer(urls, stack);

  const [key = "", spentKey = "", adminKey = ""] = [
    ...(await createKeys(stores.postgresUrl, 1)),
    ...(await createKeys(stores.postgresUrl, 1, { cuLimit24hMilli: budgetMilliCu })),
    ...(await createKeys(stores.postgresUrl, 1, { capabilities: ["platform:admin"] })),
  ];
  console.log(
    `\nA key may use ${budgetMilliCu / 1000} CU in 24 hours. It calls all gateways until each refuses:`,
  );
  for (const [index, answered] of (await spend(urls, spentKey)).entries()) {
    console.log(`  gateway ${index + 1} answered ${answered} calls`);
  }
  const [row] = await runSql(
    stores.postgresUrl,
    "SELECT count(*) AS charges, sum(used_cu_milli) / 1000.0 AS cu FROM sluice.usage",
  );
  console.log(
    `PostgreSQL has ${Number(row?.["charges"])} charges, which total ${Number(row?.["cu"])} CU.`,
  );
  console.log(`
Try it: the load balancer passes each connection to the next gateway.

  curl ${balancer}${path} \\
    -H 'authorization: Bearer ${key}' \\
    -H 'content-type: application/json' \\
    -d '${JSON.stringify(call)}'

Sign in to the dashboards with this key:

  ${adminKey}
`);
  if (!values.once) console.log("Press Ctrl-C to stop everything.");
  await stopped.promise;
}

/** Calls the gateways in turn until each refuses. Returns how many calls each has answered. */
async function spend(urls: readonly string[], key: string): Promise<number[]> {
  const answered = urls.map(() => 0);
  const refusing = new Set<number>();
  for (let turn = 0; refusing.size < urls.length; turn++) {
    const index = turn % urls.length;
    const response = await fetch(`${urls[index]}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(call),
    });
    const text = await response.text();
    if (response.status === 429) refusing.add(index);
    else if (response.status === 200) answered[index] = (answered[index] ?? 0) + 1;
    else throw new Error(`a gateway answered ${response.status}: ${text}`);
  }
  return answered;
}

async function startBalancer(
  urls: readonly string[],
  stack: AsyncDisposableStack,
): Promise<string> {
  let turn = 0;
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    clients.add(client);
    client.once("close", () => clients.delete(client));
    const { hostname, port } = new URL(urls[turn++ % urls.length] ?? "");
    const gateway = connect({ host: hostname, port: Number(port) });
    client.pipe(gateway).pipe(client);
    client.on("error", () => gateway.destroy());
    gateway.on("error", () => client.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => {
    server.close();
    for (const client of clients) client.destroy();
  });
  const { port } = server.address() as AddressInfo;
  return `http://127.0.0.1:${port}`;
}
