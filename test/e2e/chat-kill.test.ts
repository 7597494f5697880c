/** A process that is killed, or can no longer write, while it streams a completion. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chunkOf, eventOf, usageChunkOf } from "../plugins/inference/networks/chat-events.ts";
import { usageOf } from "../plugins/inference/networks/worker-scripts.ts";
import { startWorker, type Worker } from "../plugins/inference/networks/scripted-worker.ts";
import { chatBody, pipelineOf } from "../plugins/inference/chat/gateway.ts";
import { sluice, spawnGateway, type GatewayProcess } from "./gateway-process.ts";

const inTime = { timeout: 60_000 };
const hasPrlimit = spawnSync("prlimit", ["--version"]).error === undefined;

const begun =
  eventOf(chunkOf({ role: "assistant", content: "" })) + eventOf(chunkOf({ content: "x" }));
const ended =
  eventOf(chunkOf({}, { finishReason: "stop" })) +
  eventOf(usageChunkOf(usageOf(5, 2))) +
  eventOf("[DONE]");

interface Deployment extends AsyncDisposable {
  readonly worker: Worker;
  readonly key: string;
  start(): Promise<GatewayProcess>;
  charges(): { used_cu_milli: number; request_id: string }[];
}

/** The key may spend 6,000 milli-CU per day: one stream of at most 1,500 tokens fits, two do not. */
async function deploy(): Promise<Deployment> {
  const worker = await startWorker();
  const folder = await mkdtemp(join(tmpdir(), "sluice-chat-"));
  const file = join(folder, "pipeline.yaml");
  const env = { DATA_DIR: join(folder, "data"), WORKER_URL: worker.url, LOG_LEVEL: "error" };
  await writeFile(file, pipelineOf({}));
  const make = (...args: string[]): { id: string; key: string } =>
    JSON.parse(sluice([...args, "--json", "--config", file], env)) as never;
  const { id } = make("workspaces", "create", "--name", "chat", "--plan", "enterprise");
  const { key } = make("keys", "create", "--workspace", id, "--cu-24h", "6000");
  return {
    worker,
    key,
    start: () => spawnGateway(file, env),
    charges: () =>
      sluice(["usage", "export", "--config", file], env)
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line)),
    async [Symbol.asyncDispose]() {
      await worker[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function ask(
  { url }: GatewayProcess,
  key: string,
  members: object,
): Promise<IncomingMessage> {
  const sent = request(`${url}/v1/chat/completions`, {
    method: "POST",
    agent: false,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
  });
  sent.end(JSON.stringify(chatBody({ max_tokens: 1_500, ...members })));
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  return answer;
}

/** Reads until the answer ends or breaks off. */
async function readAll(answer: IncomingMessage): Promise<{ text: string; whole: boolean }> {
  let text = "";
  answer.on("data", (piece: Buffer) => (text += piece.toString()));
  answer.on("error", () => {});
  await new Promise((resolve) => answer.once("close", resolve));
  return { text, whole: answer.complete };
}

test(
  "after kill -9 during a stream, nothing is charged twice or held for ever, and the restarted gateway serves",
  inTime,
  async () => {
    await using deployment = await deploy();
    const { worker, key } = deployment;
    const first = await deployment.start();
    const held = worker.hold();
    const asking = ask(first, key, { stream: true });
    const exchange = await held;
    exchange.begin();
    await exchange.push(begun);
    const answer = await asking;
    const reading = readAll(answer);
    await once(answer, "data");
    // The other half of the key's credit is not enough for a second stream.
    const refused = await ask(first, key, { stream: true });
    assert.equal(refused.statusCode, 429);
    refused.resume();
    first.child.kill("SIGKILL");
    await first.exited;
    const broken = await reading;
    assert.ok(!broken.whole && !broken.text.includes("[DONE]"));
    await exchange.left;

    const second = await deployment.start();
    const whole = await ask(second, key, {});
    assert.equal(whole.statusCode, 200, "what was reserved is free again");
    await readAll(whole);
    second.child.kill("SIGTERM");
    assert.deepEqual(await second.exited, [0, null]);
    assert.deepEqual(
      deployment.charges().map(({ used_cu_milli: milli }) => milli),
      [21],
    );
  },
);

test(
  "when the journal can no longer be written, the stream is cut without [DONE] and the next one is refused",
  { ...inTime, skip: hasPrlimit || process.env["CI"] === "true" ? false : "needs prlimit" },
  async () => {
    await using deployment = await deploy();
    const { worker, key } = deployment;
    const gateway = await deployment.start();
    const held = worker.hold();
    const asking = ask(gateway, key, { stream: true, stream_options: { include_usage: true } });
    const exchange = await held;
    exchange.begin();
    await exchange.push(begun);
    const answer = await asking;
    const reading = readAll(answer);
    const limited = spawnSync("prlimit", [`--pid=${gateway.child.pid}`, "--fsize=0:unlimited"]);
    assert.equal(limited.status, 0);
    await exchange.push(ended);
    exchange.end();
    const { text, whole } = await reading;
    assert.ok(text.includes('"stop"'), "all that could be said was said");
    assert.ok(!whole && !text.includes("[DONE]") && !text.includes("usedCUMilli"));
    for (const stream of [true, false]) {
      const refused = await ask(gateway, key, { stream });
      assert.equal(refused.statusCode, 503);
      assert.equal(refused.headers["retry-after"], "5");
      assert.match((await readAll(refused)).text, /GATEWAY_SERVICE_UNAVAILABLE/);
    }
    const free = spawnSync("prlimit", [
      `--pid=${gateway.child.pid}`,
      "--fsize=unlimited:unlimited",
    ]);
    assert.equal(free.status, 0);
    gateway.child.kill("SIGTERM");
    await gateway.exited;
    assert.deepEqual(deployment.charges(), []);
  },
);
