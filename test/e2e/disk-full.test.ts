import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { limitFiles, sluice, spawnGateway, withoutPrlimit } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
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

test(
  "while the disk is full, calls are refused with 503 and none is served without metering; they succeed again when there is room",
  { skip: withoutPrlimit },
  async () => {
    await using node = await startRpcNode();
    const folder = await mkdtemp(join(tmpdir(), "sluice-full-"));
    try {
      const file = join(folder, "pipeline.yaml");
      const env = { DATA_DIR: join(folder, "data"), LEDGER_RPC_URL: node.url };
      await writeFile(file, pipeline);
      const make = (...args: string[]): { id: string; key: string } =>
        JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
      const { id } = make("workspaces", "create", "--name", "full", "--plan", "enterprise");
      const { key } = make("keys", "create", "--workspace", id);
      const gateway = await spawnGateway(file, env);
      const served = new Set<string>();
      let asked = 0;
      const call = async (): Promise<number> => {
        const requestId = `call-${asked++}`;
        const response = await fetch(`${gateway.url}/v1/ledger/rpc`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${key}`,
            "content-type": "application/json",
            "x-request-id": requestId,
          },
          body: '{"jsonrpc":"2.0","id":1,"method":"system_chain"}',
        });
        const text = await response.text();
        if (response.status === 200) served.add(requestId);
        else assert.match(text, /GATEWAY_SERVICE_UNAVAILABLE/);
        return response.status;
      };
      const until = async (status: number): Promise<void> => {
        const deadline = AbortSignal.timeout(20_000);
        while ((await call()) !== status) deadline.throwIfAborted();
      };
      assert.equal(await call(), 200);
      limitFiles(gateway.child.pid!, "65536");
      await until(503);
      const callsOfNode = (): number =>
        node.calls.filter(({ method }) => method === "system_chain").length;
      await until(503);
      const before = callsOfNode();
      assert.equal(await call(), 503);
      assert.equal(callsOfNode(), before, "what cannot be metered is not even asked");
      assert.equal((await fetch(`${gateway.url}/readyz`)).status, 503);
      limitFiles(gateway.child.pid!, "unlimited");
      await until(200);
      gateway.child.kill("SIGTERM");
      assert.deepEqual(await gateway.exited, [0, null]);
      const charged = sluice(["usage", "export", "--config", file], env)
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { request_id: string }).request_id);
      assert.deepEqual(charged.toSorted(), [...served].toSorted());
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);
