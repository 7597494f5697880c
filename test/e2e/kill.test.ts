import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { sluice, spawnGateway } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";

const rounds = 8;
const callers = 16;
/** Acknowledged calls per round before the process is killed. The moment differs from round to round. */
const acknowledgedBeforeKill = (round: number): number => 40 + ((round * 37) % 160);

const method = "state_getStorageHash";
const costMilliCu = 200;

interface Charge {
  readonly request_id: string;
  readonly used_cu_milli: number;
  readonly method: string;
}

test(
  "after repeated kill -9 under load, each answered call is in the journal exactly once",
  { timeout: 120_000 },
  async () => {
    await using node = await startRpcNode({ [method]: () => `0x${"ab".repeat(32)}` });
    const folder = await mkdtemp(join(tmpdir(), "sluice-kill-"));
    try {
      const file = join(folder, "pipeline.yaml");
      const env = { DATA_DIR: join(folder, "data"), LEDGER_RPC_URL: node.url };
      await writeFile(file, pipeline);
      const key = issueKey(file, env);
      const answered = new Set<string>();
      const asked = new Set<string>();
      for (let round = 0; round < rounds; round++) {
        const gateway = await spawnGateway(file, env);
        const target = answered.size + acknowledgedBeforeKill(round);
        const enough = Promise.withResolvers<void>();
        let dead = false;
        const caller = async (lane: number): Promise<void> => {
          for (let n = 0; !dead; n++) {
            const id = `r${round}-${lane}-${n}`;
            asked.add(id);
            if (await call(gateway.url, key, id)) answered.add(id);
            if (answered.size >= target) enough.resolve();
          }
        };
        const running = Array.from({ length: callers }, (_, lane) => caller(lane));
        await enough.promise;
        gateway.child.kill("SIGKILL");
        dead = true;
        await gateway.exited;
        await Promise.all(running);
      }
      const charges = sluice(["usage", "export", "--config", file], env)
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Charge);
      const charged = new Map<string, number>();
      for (const charge of charges) {
        charged.set(charge.request_id, (charged.get(charge.request_id) ?? 0) + 1);
        assert.equal(charge.used_cu_milli, costMilliCu);
        assert.equal(charge.method, method);
      }
      for (const id of answered) assert.equal(charged.get(id), 1, `${id} was answered`);
      for (const [id, times] of charged) {
        assert.equal(times, 1, `${id} was charged ${times} times`);
        assert.ok(asked.has(id), `${id} was never asked for`);
      }
      // At most the calls that were in flight at each kill were charged without their answer arriving.
      assert.ok(charges.length - answered.size <= rounds * callers);
      assert.ok(answered.size > rounds * 40);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);

/** Returns true if the whole answer arrived. */
async function call(url: string, key: string, requestId: string): Promise<boolean> {
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
    assert.equal(response.status, 200, body);
    assert.equal(response.headers.get("x-used-cu-milli"), String(costMilliCu));
    return body.includes("abab");
  } catch (error) {
    // The connection broke because the process has ended. Anything else fails the test.
    if (error instanceof assert.AssertionError) throw error;
    return false;
  }
}

function issueKey(file: string, env: Readonly<Record<string, string>>): string {
  const run = (...args: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
  const { id } = run("workspaces", "create", "--name", "kill", "--plan", "enterprise");
  return run("keys", "create", "--workspace", id).key;
}

const pipeline = `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: error }
plans: { enterprise: { rps: 100000, includedCu: 1000000000 } }
upstreams:
  ledger: { urls: "\${LEDGER_RPC_URL}", cacheBytes: 0, singleFlight: false }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;
