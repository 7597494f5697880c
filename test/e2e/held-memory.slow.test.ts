/**
 * Clients that make a gateway with a memory limit of 512 MiB hold as much as they can. It refuses them, stays within its
 * limit and answers health checks. Where cgroups can be made, the limit is a real one.
 */
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { defaultHeldBytes } from "../../src/http/memory-limit.ts";
import { until } from "../plugins/ledger/until.ts";
import { temporaryFolder } from "../store/folder.ts";
import { sluice, spawnGateway, type GatewayProcess } from "./gateway-process.ts";
import { startRpcNode } from "./rpc-node.ts";
import { watchHealth } from "./watch-health.ts";

const mebibyte = 1024 * 1024;
const limitBytes = 512 * mebibyte;
/** The promise is 200 ms. The clients, which send 650 MiB, and other tests share the processors with the gateway. */
const maxHealthMs = 2_000;

interface Limited {
  readonly gateway: GatewayProcess;
  readonly keys: readonly string[];
  /** Opens a connection, which ends with the test. */
  open(): Socket;
  /** Returns the highest memory of the process so far. */
  highestBytes(): number;
}

/** Makes a group with the limit. Undefined if this user cannot. */
function makeGroup(): string | undefined {
  const forms = [
    ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"],
    ["/sys/fs/cgroup", "memory.max"],
  ] as const;
  for (const [parent, file] of forms) {
    const folder = join(parent, `sluice-test-${process.pid}-${Date.now()}`);
    try {
      mkdirSync(folder);
    } catch {
      continue;
    }
    try {
      writeFileSync(join(folder, file), String(limitBytes));
      return folder;
    } catch {}
  }
  return undefined;
}

async function start(t: TestContext, nodeUrl: string): Promise<Limited> {
  const folder = temporaryFolder(t);
  const file = join(folder, "pipeline.yaml");
  const env = { DATA_DIR: join(folder, "data"), LEDGER_RPC_URL: nodeUrl };
  const group = makeGroup();
  const memory = { constrained: limitBytes, total: limitBytes, heap: limitBytes };
  const bound = group === undefined ? `, unfinishedBodyBytes: ${defaultHeldBytes(memory)}` : "";
  writeFileSync(file, pipeline(bound));
  const args = ["--config", file, "--json"];
  const make = (...words: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...words, ...args], env)) as { id: string; key: string };
  const keys = Array.from({ length: 4 }, (_, at) => {
    const { id } = make("workspaces", "create", "--name", `w${at}`, "--plan", "developer");
    return make("keys", "create", "--workspace", id, "--capability", "ledger:read").key;
  });
  const join_ = `echo $$ > ${group}/cgroup.procs && exec "$@"`;
  const wrapper = group === undefined ? [] : ["sh", "-c", join_, "sh"];
  const gateway = await spawnGateway(file, env, wrapper);
  t.after(async () => {
    gateway.child.kill("SIGKILL");
    await gateway.exited;
    if (group !== undefined) rmdirSync(group);
  });
  const status = (name: string): number => {
    const text = readFileSync(`/proc/${gateway.child.pid}/status`, "utf8");
    return Number(new RegExp(`^${name}:\\s*(\\d+) kB`, "m").exec(text)?.[1]) * 1024;
  };
  return {
    gateway,
    keys,
    open() {
      const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
      socket.on("error", () => {});
      t.after(() => socket.destroy());
      return socket;
    },
    highestBytes: () => status("VmHWM"),
  };
}

/** `longest`: the longest time of a health check in milliseconds. */
function assertHealthy(t: TestContext, limited: Limited, longest: number): void {
  const highest = limited.highestBytes() / mebibyte;
  t.diagnostic(`highest memory: ${Math.round(highest)} MiB`);
  assert.equal(limited.gateway.child.exitCode, null);
  assert.ok(longest < maxHealthMs, `a health check took ${longest} ms`);
  assert.ok(highest < 512, `${highest} MiB`);
}

/** Returns the head of a call of the node. `bytes`: the length of its body. */
function headOf(key: string, bytes: number): string {
  return (
    `POST /v1/ledger/rpc HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n` +
    `content-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`
  );
}

test("slow bodies of four keys get refusals, and the memory stays within the limit", async (t) => {
  await using node = await startRpcNode({ system_chain: () => "Test" });
  const limited = await start(t, node.url);
  const longestHealth = watchHealth(t, limited.gateway.url);
  const statuses: number[] = [];
  let sent = 0;
  const part = Buffer.alloc(9 * mebibyte, " ");
  for (const key of limited.keys) {
    for (let count = 0; count < 18; count++) {
      const socket = limited.open();
      socket.on("data", (data) => {
        const status = /^HTTP\/1.1 (\d+)/.exec(data.toString("latin1"))?.[1];
        if (status !== undefined) statuses.push(Number(status));
      });
      socket.write(headOf(key, part.length + 1000));
      socket.write(part, () => void sent++);
    }
  }
  // A body that was refused while it arrived may lose its connection before the client has read the refusal.
  await until(() => statuses.length >= 40 && sent >= 8);
  assert.ok(
    statuses.every((status) => status === 429 || status === 503),
    statuses.join(),
  );
  assertHealthy(t, limited, await longestHealth());
});

test("unread answers of large values hold no more than the limit", async (t) => {
  const value = `0x${"ab".repeat(1.5 * mebibyte)}`;
  await using node = await startRpcNode({ state_getStorage: () => value });
  const limited = await start(t, node.url);
  const longestHealth = watchHealth(t, limited.gateway.url);
  const [key = ""] = limited.keys;
  const call = `{"jsonrpc":"2.0","id":1,"method":"state_getStorage","params":["0x3a636f6465","0x${"11".repeat(32)}"]}`;
  const body = `[${Array<string>(50).fill(call).join(",")}]`;
  for (let count = 0; count < 16; count++) {
    const socket = limited.open();
    socket.pause();
    socket.write(headOf(key, body.length) + body);
  }
  await until(() => node.calls.some(({ method }) => method === "state_getStorage"));
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  assertHealthy(t, limited, await longestHealth());
});

const pipeline = (bound: string): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}", drainDelaySeconds: 0${bound} }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
log: { level: error }
upstreams: { ledger: { urls: "\${LEDGER_RPC_URL}" } }
unmatched: [request-id]
routes:
  - path: /v1/ledger/rpc
    methods: [POST]
    run: [request-id, authenticate, rate-limit, { authorize: { require: "ledger:read" } }, meter]
    to: { ledger-rpc: { upstream: ledger } }
`;
