/** Gateways in processes of their own, which are killed and stopped. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { sluice, spawnGateway, type GatewayProcess } from "../../../e2e/gateway-process.ts";
import { forgetServerStart, runSql } from "../../../store/servers.ts";
import { until } from "../shipping/fixture.ts";
import { call, charged, makeSilent, pipeline, preparedDatabase, spend } from "./gateway-fixture.ts";

interface Setup {
  readonly url: string;
  readonly key: string;
  /** Answers of the upstream that are held until the test ends them. */
  readonly held: ServerResponse[];
  readonly start: (name: string) => Promise<GatewayProcess>;
  /** Runs a command of `sluice`, and returns what it prints. */
  readonly run: (...args: string[]) => string;
}

async function setUp(t: TestContext): Promise<Setup> {
  const url = await preparedDatabase(t);
  await forgetServerStart(url);
  const folder = mkdtempSync(join(tmpdir(), "sluice-leases-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const held: ServerResponse[] = [];
  const upstream = createServer((_, response) => void held.push(response)).listen(0, "127.0.0.1");
  await once(upstream, "listening");
  t.after(() => upstream.closeAllConnections());
  t.after(() => upstream.close());
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline);
  const env = (name: string): Record<string, string> => ({
    DATABASE_URL: url,
    DATA_DIR: join(folder, name),
    REPLICA_NAME: name,
    HELD_URL: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
  });
  const run = (...args: string[]): string =>
    sluice([...args, "--config", file, "--json"], env("command"));
  const { id } = JSON.parse(run("workspaces", "create", "--name", "t", "--plan", "free"));
  const { key } = JSON.parse(run("keys", "create", "--workspace", id));
  return {
    url,
    key,
    held,
    run,
    async start(name) {
      const gateway = await spawnGateway(file, env(name));
      t.after(async () => {
        gateway.child.kill("SIGKILL");
        await gateway.exited;
      });
      return gateway;
    },
  };
}

test("the credit of a killed gateway is free after the fence, and nothing is charged for its open calls", async (t) => {
  const { url, key, held, start } = await setUp(t);
  const one = await start("one");
  const two = await start("two");
  const open = Array.from({ length: 10 }, () => call(two.url, key, "/held").catch(() => 0));
  await until(() => Promise.resolve(held.length === 10));
  two.child.kill("SIGKILL");
  await two.exited;
  assert.deepEqual(await Promise.all(open), Array(10).fill(0));
  // 500 milli-CU are reserved by the killed gateway.
  const before = await spend([one.url], key, 3);
  assert.ok((before[200] ?? 0) <= 71, `${before[200]} calls`);
  await makeSilent(url, "two");
  await until(async () => (await call(one.url, key)) === 200);
  await spend([one.url], key, 3);
  assert.deepEqual(await charged(url), { charges: 142, used: 994, requests: 142 });
});

test("a gateway that was stopped while it was fenced registers again, and charges what it still may", async (t) => {
  const { url, key, held, start } = await setUp(t);
  await start("one");
  const two = await start("two");
  const answer = call(two.url, key, "/held");
  await until(() => Promise.resolve(held.length === 1));
  two.child.kill("SIGSTOP");
  // Its last messages may still be on their way.
  await wait(500);
  held[0]?.end("late");
  await makeSilent(url, "two");
  const states = (): Promise<Record<string, unknown>[]> =>
    runSql(url, "SELECT state FROM sluice.replicas WHERE name = 'two' ORDER BY id");
  await until(async () => (await states())[0]?.["state"] === "fenced");
  assert.deepEqual(await runSql(url, "SELECT scope FROM sluice.leases WHERE replica = 2"), []);
  two.child.kill("SIGCONT");
  assert.equal(await answer, 200);
  assert.deepEqual(await states(), [{ state: "fenced" }, { state: "live" }]);
  assert.deepEqual(await charged(url), { charges: 1, used: 50, requests: 1 });
  const metrics = await (await fetch(`${two.adminUrl}/metrics`)).text();
  assert.match(metrics, /sluice_fenced_total 1\n/);
});

test("a gateway that was fenced while its credit went to another one charges nothing", async (t) => {
  const { url, key, held, start } = await setUp(t);
  const one = await start("one");
  const two = await start("two");
  // The head of a streamed answer has left before the fence shows, so the answer is cut.
  const answers = [1, 2].map(() => call(two.url, key, "/held").catch(() => "cut"));
  await until(() => Promise.resolve(held.length === 2));
  two.child.kill("SIGSTOP");
  await wait(500);
  for (const response of held) response.end("late");
  await makeSilent(url, "two");
  await until(async () => (await spend([one.url], key, 1))[429] === 1 && (await usedBy(url)) > 950);
  two.child.kill("SIGCONT");
  assert.deepEqual(await Promise.all(answers), ["cut", "cut"]);
  assert.deepEqual(await charged(url), { charges: 142, used: 994, requests: 142 });
});

async function usedBy(url: string): Promise<number> {
  return Number((await charged(url))?.["used"]);
}
