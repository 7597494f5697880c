/** The check of finalized heads in a whole gateway, and `sluice verify --head`. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test, type TestContext } from "node:test";
import { findCommand } from "../../../src/commands/all.ts";
import { startBareGateway, type BareGateway } from "../../../src/testing/gateway.ts";
import { manualClock, type ManualClock } from "../../../src/testing/clock.ts";
import { verifyHead } from "../../../plugins/proofs/commands/verify-head.ts";
import type { Checkpoint } from "../../../plugins/proofs/proofs/finalized-chain.ts";
import { commandLine } from "../../commands/command-line.ts";
import { serveNode } from "./node-server.ts";
import { TestChain, voters } from "./test-chain.ts";
import { until } from "../ledger/until.ts";

const everyMs = 6_000;

function pipelineOf(urls: readonly string[], checkpoint?: Checkpoint, headersMs?: number): string {
  return `
version: 1
environment: dev
secret: at-least-sixteen-characters
server: { port: "\${PORT:-0}" }
admin: { port: "\${ADMIN_PORT:-0}" }
store: { data: "\${DATA_DIR:-./data}" }
upstreams:
  main: ${JSON.stringify({ urls, checkpoint, headersMs })}
routes:
  - path: /rpc
    methods: [POST]
    run: [request-id, { authenticate: {} }, { authorize: { require: key } }, meter]
    to: { ledger-rpc: { upstream: main } }
`;
}

async function start(
  t: TestContext,
  pipeline: string,
): Promise<BareGateway & { clock: ManualClock }> {
  const clock = manualClock();
  const gateway = await startBareGateway({ pipeline, clock });
  t.after(() => gateway[Symbol.asyncDispose]());
  return Object.assign(gateway, { clock });
}

async function metric(gateway: BareGateway, name: string): Promise<string[]> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return text.split("\n").filter((line) => line.startsWith(name));
}

async function readyChecks(gateway: BareGateway): Promise<Record<string, string>> {
  const answer = await fetch(`${gateway.adminUrl}/readyz`);
  return ((await answer.json()) as { checks: Record<string, string> }).checks;
}

test("a gateway proves the heads of its nodes, and reports a node that differs", async (t) => {
  const chain = new TestChain(voters(4)).add({}, 10).finalize();
  const fork = chain.fork(8, 2);
  await using honest = await serveNode(chain.node("a"));
  let isLying = false;
  await using liar = await serveNode({
    call: (method, params) => (isLying ? fork : chain).node("b").call(method, params),
  });
  const urls = [honest.url, liar.url];
  const gateway = await start(t, pipelineOf(urls, chain.checkpoint(0)));
  assert.deepEqual(await metric(gateway, "sluice_head_proved_block{"), [
    'sluice_head_proved_block{upstream="main"} 10',
  ]);
  const check = "finalized head of main";
  assert.equal((await readyChecks(gateway))[check], "ok");
  isLying = true;
  chain.add({ next: voters(4) }, 3).finalize();
  gateway.clock.advance(everyMs);
  await until(async () => (await readyChecks(gateway))[check] !== "ok");
  assert.equal((await readyChecks(gateway))[check], "1 of 2 nodes differ, not required");
  const differs = await metric(gateway, "sluice_head_differs{");
  assert.deepEqual(
    differs.map((line) => line.slice(-1)),
    ["0", "1"],
  );
  const { host } = new URL(liar.url);
  const logged = gateway.lines.filter((line) => line.startsWith("the finalized head of a node"));
  assert.equal(logged.length, 1);
  assert.match(
    logged[0] ?? "",
    new RegExp(`"node":"${host}".*block 10 is proved with another hash`),
  );
  assert.deepEqual(await metric(gateway, "sluice_head_proved_timestamp_seconds{"), [
    `sluice_head_proved_timestamp_seconds{upstream="main"} ${gateway.clock.now() / 1000}`,
  ]);
  // A removed node must not be reported for ever.
  await gateway.write(pipelineOf([honest.url], chain.checkpoint(0)));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  const nodesOf = async (name: string): Promise<number> => (await metric(gateway, name)).length;
  await until(async () => (await nodesOf("sluice_head_differs{")) === 1);
  await until(async () => (await nodesOf("sluice_ledger_node_up{")) === 1);
});

test("a node that hangs does not delay the proofs for the others", async (t) => {
  const chain = new TestChain(voters(4)).add({}, 10).finalize();
  await using honest = await serveNode(chain.node("a"));
  let isHanging = false;
  await using hanging = await serveNode({
    call: (method, params) =>
      isHanging ? new Promise(() => {}) : chain.node("b").call(method, params),
  });
  const urls = [honest.url, hanging.url];
  const gateway = await start(t, pipelineOf(urls, chain.checkpoint(0), 3_600_000));
  isHanging = true;
  chain.add({}, 3).finalize();
  gateway.clock.advance(everyMs);
  await until(async () => {
    gateway.clock.advance(100);
    const [block] = await metric(gateway, "sluice_head_proved_block{");
    return block === 'sluice_head_proved_block{upstream="main"} 13';
  });
});

test("sluice verify --head prints the head of every node and a new checkpoint", async (t) => {
  assert.equal(await (await findCommand("verify", ["--head"]))?.load(), verifyHead);
  const chain = new TestChain(voters(4)).add({ next: voters(5) }, 10).finalize();
  await using a = await serveNode(chain.node("a"));
  const unproved = (method: string): unknown =>
    method === "grandpa_proveFinality" ? null : undefined;
  await using b = await serveNode(chain.fork(8, 3).node("b", unproved));
  const line = commandLine(t);
  writeFileSync(line.configFile, pipelineOf([a.url, b.url], chain.checkpoint(0)));
  const { code, out } = await line.run(verifyHead, "--head");
  assert.equal(code, 1);
  const { hash } = chain.head;
  assert.deepEqual(out, [
    `proved    ${new URL(a.url).host}  10 ${hash}`,
    `differs   ${new URL(b.url).host}  11 ${chain.fork(8, 3).head.hash} block 10 is proved with another hash`,
    `main: proved up to block 10 ${hash}, authority set 1`,
  ]);
  writeFileSync(line.configFile, pipelineOf([a.url], chain.checkpoint(0)));
  const { checkpoint } = await line.json(verifyHead, "--head");
  assert.deepEqual(checkpoint, chain.checkpoint(10));
  assert.equal((await line.run(verifyHead, "--head", "main")).code, 0);
});

test("sluice verify --head compares nodes without a checkpoint", async (t) => {
  const chain = new TestChain(voters(4)).add({}, 10).finalize();
  await using a = await serveNode(chain.node("a"));
  await using b = await serveNode(chain.fork(8, 3).node("b"));
  const line = commandLine(t);
  writeFileSync(line.configFile, pipelineOf([a.url, b.url]));
  const { code, out } = await line.run(verifyHead, "--head", "main");
  assert.equal(code, 1);
  assert.match(out[0] ?? "", /^differs .* the nodes have different blocks 10$/);
  assert.equal(out.at(-1), "main: nothing is proved, because there is no checkpoint");
  writeFileSync(line.configFile, pipelineOf([a.url, "http://127.0.0.1:9"]));
  const away = await line.run(verifyHead, "--head", "main");
  assert.equal(away.code, 1);
  assert.match(away.out[1] ?? "", /^silent .* the node does not answer over HTTP$/);
  await assert.rejects(line.run(verifyHead, "--head"), /no upstream has a checkpoint/);
  await assert.rejects(line.run(verifyHead, "--head", "other"), /unknown upstream "other"/);
});
