/** A gateway in its own process with a memory limit, for tests of attacks. */
import assert from "node:assert/strict";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, type TestContext } from "node:test";
import { defaultHeldBytes } from "../../src/gateway/open-host-resources.ts";
import { makeKey, spawnGateway } from "./gateway-process.ts";
import { shipped } from "./shipped-gateway.ts";
import { limitOnThisMachine } from "./slowness.ts";
import { watchHealth } from "./watch-health.ts";

export const mebibyte = 1024 * 1024;
const limitBytes = 512 * mebibyte;
/**
 * Maximum CPU time of one turn of the event loop on a fast machine. During a turn no health check is answered. The attacks
 * of S1, S2 and S8 have taken 2 to 15 seconds.
 */
const maxTurnMs = 600;

export interface Attacked {
  readonly url: string;
  readonly adminUrl: string;
  /** One key of each of two workspaces with the plan Enterprise. They may do everything but administer the platform. */
  readonly keys: readonly [string, string];
  open(t: TestContext): Socket;
  post(path: string, body: object): Promise<{ readonly status: number; readonly text: string }>;
  /** The gateway must still run, within its memory limit and without a long turn since the last call. */
  assertHealthy(t: TestContext): Promise<void>;
  /** Reports the longest health check since the start, at the end. None may have failed. */
  assertAnswered(): Promise<void>;
}

/** Starts a gateway with the shipped pipeline.yaml and at most 512 MiB, where this user can make cgroups. */
export async function startAttacked(
  t: TestContext,
  env: Readonly<Record<string, string>>,
): Promise<Attacked> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-"));
  const file = join(folder, "pipeline.yaml");
  const loopFile = join(folder, "longest-turn");
  const all = {
    DATA_DIR: join(folder, "data"),
    DRAIN_DELAY_SECONDS: "0",
    LOG_LEVEL: "error",
    LOOP_PROBE_FILE: loopFile,
    ...env,
  };
  const group = makeGroup();
  const memory = { constrained: limitBytes, total: limitBytes, heap: limitBytes };
  const bound = `drainSeconds: 30\n  unfinishedBodyBytes: ${defaultHeldBytes(memory)}`;
  writeFileSync(file, group === undefined ? shipped.replace("drainSeconds: 30", bound) : shipped);
  accounts ??= await makeAccounts();
  const { keys } = accounts;
  cpSync(accounts.folder, all.DATA_DIR, { recursive: true });
  const preload = `--import=${join(import.meta.dirname, "loop-probe.ts")}`;
  const wrapper = ["sh", "-c", `echo $$ > ${group}/cgroup.procs && exec "$@"`, "sh"];
  const gateway = await spawnGateway(
    file,
    { ...all, NODE_OPTIONS: preload },
    group === undefined ? {} : { wrapper },
  );
  t.after(async () => {
    gateway.child.kill("SIGKILL");
    await gateway.exited;
    if (group !== undefined) rmdirSync(group);
    // Only now: a gateway that runs writes to its folder.
    rmSync(folder, { recursive: true });
  });
  const longestHealth = watchHealth(t, gateway.url);
  const measure = (): void => {
    writeFileSync(loopFile, "0");
    gateway.child.kill("SIGUSR2");
  };
  measure();
  return {
    url: gateway.url,
    adminUrl: gateway.adminUrl,
    keys,
    open(part) {
      const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
      socket.on("error", () => {});
      part.after(() => socket.destroy());
      return socket;
    },
    async post(path, body) {
      const response = await fetch(gateway.url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${keys[0]}`, "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return { status: response.status, text: await response.text() };
    },
    async assertHealthy(part) {
      assert.equal((await fetch(`${gateway.url}/healthz`)).status, 200);
      const status = readFileSync(`/proc/${gateway.child.pid}/status`, "utf8");
      const highest = Number(/^VmHWM:\s*(\d+) kB/m.exec(status)?.[1]) / 1024;
      const turnMs = Number(readFileSync(loopFile, "utf8"));
      measure();
      part.diagnostic(`longest turn: ${Math.round(turnMs)} ms`);
      part.diagnostic(`highest memory: ${Math.round(highest)} MiB`);
      assert.equal(gateway.child.exitCode, null);
      assert.ok(highest < 512, `${highest} MiB`);
      const limitMs = limitOnThisMachine(turnMs, maxTurnMs);
      assert.ok(turnMs < limitMs, `a turn of ${turnMs} ms, above ${limitMs} ms`);
    },
    async assertAnswered() {
      assert.notEqual(await longestHealth(), Infinity, "a health check failed");
    },
  };
}

interface TestAccounts {
  readonly folder: string;
  readonly keys: readonly [string, string];
}

/** A data folder with the accounts, which is made once and copied for each gateway. */
let accounts: TestAccounts | undefined;
after(() => {
  if (accounts !== undefined) rmSync(accounts.folder, { recursive: true });
});

async function makeAccounts(): Promise<TestAccounts> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-attacked-"));
  const make = async (): Promise<string> =>
    (await makeKey(folder, ["ledger:read", "inference", "platform:read", "workspace:admin"])).key;
  return { folder, keys: [await make(), await make()] };
}

/** Makes a cgroup with the limit. Undefined if this user cannot. */
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
