/**
 * Memory per idle connection of `ledger-ws`, without subscriptions and with one to new heads, which all connections
 * share. The resident memory of the gateway's process is read before the connections and after they have settled.
 *
 *     node bench/micro/idle-websockets.ts [connections]
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { ChainNode } from "../../test/plugins/ledger/ledger/feed/chain-node.ts";
import { issueKey } from "../load/key.ts";
import { startPeer } from "../load/process.ts";

const connections = Number(process.argv[2] ?? 1000);
const root = join(import.meta.dirname, "../..");

const pipeline = `
version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: warn }
upstreams: { ledger: { urls: "\${NODE_URL}" } }
routes:
  - path: /v1/ledger/rpc
    websocket: true
    run: [request-id, authenticate, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-ws: { upstream: ledger, connectionsPerKey: 100000 } }
`;

const folder = await mkdtemp(join(tmpdir(), "sluice-bench-"));
await using node = await ChainNode.start();
try {
  const file = join(folder, "pipeline.yaml");
  await writeFile(file, pipeline);
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data"), NODE_URL: node.url };
  const key = issueKey(file, env);
  const main = join(root, "src/main.ts");
  await using gateway = await startPeer(
    [process.execPath, main, "start", "--json", "--config", file],
    { core: 0, env },
  );
  const open = async (): Promise<WebSocket> => {
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/v1/ledger/rpc`, {
      headers: { authorization: `Bearer ${key}` },
      perMessageDeflate: false,
    });
    await once(socket, "open");
    return socket;
  };
  const openAll = async (count: number): Promise<WebSocket[]> => {
    const sockets: WebSocket[] = [];
    while (sockets.length < count) sockets.push(await open());
    return sockets;
  };
  // Warms the code, so that its memory does not count as that of the connections.
  for (const socket of await openAll(100)) socket.close();
  await sleep(10_000);
  const before = gateway.rssMiB();
  const sockets = await openAll(connections);
  await sleep(10_000);
  const idle = gateway.rssMiB();
  for (const socket of sockets) {
    socket.send('{"jsonrpc":"2.0","id":1,"method":"chain_subscribeNewHeads","params":[]}');
    await once(socket, "message");
  }
  await sleep(10_000);
  const subscribed = gateway.rssMiB();
  const kib = (mib: number): string => `${((mib * 1024) / connections).toFixed(1)} KiB`;
  console.log(`${connections} connections; RSS before: ${before.toFixed(0)} MiB`);
  console.log(`per idle connection: ${kib(idle - before)}`);
  console.log(`per connection with a subscription: ${kib(subscribed - before)}`);
  console.log(`subscriptions at the node: ${node.open("chain_subscribeNewHeads")}`);
  for (const socket of sockets) socket.terminate();
} finally {
  await rm(folder, { recursive: true, force: true });
}
