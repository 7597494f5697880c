/** Subscriptions are charged exactly also when the process is killed: each notification is on disk before it is sent. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";
import { ChainNode } from "../plugins/ledger/ledger/feed/chain-node.ts";
import { request } from "../plugins/ledger/ledger/fixture.ts";
import { connectWs } from "../plugins/ledger/ledger-ws/ws-client.ts";
import { until } from "../plugins/ledger/until.ts";
import { temporaryFolder } from "../store/folder.ts";
import { makeKey, spawnGateway } from "./gateway-process.ts";

const rounds = 5;
/** Notifications of all clients per round before the process is killed. The moment differs from round to round. */
const notifiedBeforeKill = (round: number): number => 30 + ((round * 37) % 80);
/** The gateway leaves a node that sends more than 100 notifications per second, and 50 more per subscription. */
const blockMs = 20;

const methods = ["chain_subscribeNewHeads", "chain_subscribeFinalizedHeads"] as const;
const notificationOf = { chain_newHead: methods[0], chain_finalizedHead: methods[1] } as const;

/** Numbers of messages that a client has received, and the most that it can have been sent, by method. */
class Count {
  opened = 0;
  received = 0;
  possible = 0;
}

test(
  "after repeated kill -9, each notification that a client has received is charged once",
  { timeout: 120_000 },
  async (t) => {
    await using node = await ChainNode.start();
    const folder = temporaryFolder(t);
    const file = join(folder, "pipeline.yaml");
    const data = join(folder, "data");
    const env = { DATA_DIR: data, LEDGER_RPC_URL: node.url };
    await writeFile(file, pipeline);
    const callers = [await makeKey(data), await makeKey(data), await makeKey(data)];
    const counts = new Map<string, Count>();
    const countOf = (keyId: string, method: string): Count => {
      const name = `${keyId} ${method}`;
      const count = counts.get(name) ?? new Count();
      counts.set(name, count);
      return count;
    };
    for (let round = 0; round < rounds; round++) {
      const gateway = await spawnGateway(file, env);
      let notified = 0;
      let answered = 0;
      const opened = callers.map(async ({ keyId: id, key }) => {
        const client = await connectWs(`${gateway.url}/v1/ledger/rpc`, { key });
        client.socket.on("error", () => {});
        client.socket.on("message", (message) => {
          const { method } = JSON.parse((message as Buffer).toString()) as {
            readonly method?: keyof typeof notificationOf;
          };
          if (method === undefined) answered++;
          else {
            countOf(id, notificationOf[method]).received++;
            notified++;
          }
        });
        for (const method of methods) {
          client.send(request(method, "[]"));
          countOf(id, method).opened++;
        }
        return client;
      });
      const clients = await Promise.all(opened);
      await until(() => answered === callers.length * methods.length);
      const from = node.best;
      while (notified < notifiedBeforeKill(round)) {
        node.advance(node.best + 1);
        await pause(blockMs);
      }
      gateway.child.kill("SIGKILL");
      await gateway.exited;
      await Promise.all(clients.map(({ closed }) => closed));
      // The head at the beginning, and one per block.
      for (const count of counts.values()) count.possible += node.best - from + 1;
    }
    const charged = new Map<string, number>();
    for (const { keyId, method, usedMilliCu } of readUsage(data)) {
      const name = `${keyId} ${method}`;
      charged.set(name, (charged.get(name) ?? 0) + usedMilliCu);
    }
    assert.deepEqual([...charged.keys()].toSorted(), [...counts.keys()].toSorted());
    for (const [name, { opened, received, possible }] of counts) {
      const paid = ((charged.get(name) ?? 0) - opened * 1000) / 100;
      assert.ok(Number.isInteger(paid), name);
      assert.ok(paid >= received, `${name}: ${received} received, ${paid} charged`);
      assert.ok(paid <= possible, `${name}: ${possible} possible, ${paid} charged`);
      assert.ok(received > rounds, name);
    }
  },
);

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: error }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams:
  ledger: { urls: "\${LEDGER_RPC_URL}" }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    websocket: true
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-ws: { upstream: ledger } }
`;
