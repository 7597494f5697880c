/**
 * Random exchanges over the three APIs for completions through a whole gateway: each is charged what the worker's answer
 * costs, once, and no reservation stays open. `MONEY_STREAMS=100000` runs more of them, and `MONEY_SEED` repeats a run.
 */
import assert from "node:assert/strict";
import { Agent, request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import type { KeyWindows } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import type { TestKey } from "../../../../plugins/contracts/testing.ts";
import type { UsageJson } from "../../../../plugins/billing/metering/usage-json.ts";
import { sluice } from "../../../e2e/gateway-process.ts";
import { startChat, type ChatGateway } from "../chat/gateway.ts";
import type { Exchange } from "../networks/scripted-worker.ts";
import { expectedCharge, price, sum, tokenCap } from "./expected-charge.ts";
import { lastText, randomPlan, type Plan } from "./random-stream.ts";

const streams = Number(process.env["MONEY_STREAMS"] ?? 2_000);
const seed = Number(process.env["MONEY_SEED"] ?? Date.now() | 0);
/** Each client has its own key and workspace, because a workspace may send 200 requests per second. */
const clients = 32;

/** An exchange and what is known about it. */
interface Run {
  readonly name: string;
  readonly plan: Plan;
  readonly random: Random;
  /** Resolves when the worker has the request. */
  readonly arrived: PromiseWithResolvers<void>;
  /** Resolves when the client has left. */
  readonly left: PromiseWithResolvers<void>;
  /** Resolves when the worker has sent everything. */
  readonly sent: PromiseWithResolvers<void>;
  /** The requests that the worker has received. There may be one at most. */
  readonly exchanges: Exchange[];
  /** Undefined if the client has left. */
  answer?: ClientAnswer | undefined;
}

interface ClientAnswer {
  readonly status: number;
  readonly text: string;
  /** The header `X-Used-CU-Milli`. */
  readonly usedMilli: unknown;
}

test(
  `${streams} random exchanges cost exactly what the answers of the worker cost`,
  { timeout: 900_000 },
  async () => {
    const runs = new Map<string, Run>();
    await using chat = await startChat({
      network: `passes: [tools, sampling, format, images, reasoning], maxOutputTokens: ${tokenCap}`,
      price: price.nano,
      rate: `"${price.usd}"`,
      otherwise: (exchange) => answer(runs.get(nameIn(exchange)) ?? assert.fail(), exchange),
    });
    const keys = await Promise.all(
      Array.from({ length: clients }, () => chat.gateway.issue({ overageLimitCuMilli: 1e12 })),
    );
    let next = 0;
    const client = async ({ key }: TestKey): Promise<void> => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      for (let n = next++; n < streams; n = next++) {
        const run = runOf(n);
        runs.set(run.name, run);
        await ask(chat, run, key, agent);
      }
      agent.destroy();
    };
    await Promise.all(keys.map(client));
    const begun = [...runs.values()].filter(({ exchanges }) => exchanges.length > 0);
    await Promise.all(begun.map(({ sent }) => sent.promise));
    const used = await usedWhenSettled(chat, keys);
    await chat.gateway.gateway.stop();
    const rows = exportedRows(chat);
    for (const [at, { keyId }] of keys.entries()) {
      const own = rows.filter((row) => row.key_id === keyId);
      assert.equal(used[at], sum(own.map((row) => row.used_cu_milli)), "the window of a key");
    }
    assertRows(rows, runs);
  },
);

function runOf(n: number): Run {
  const random = createRandom(seed ^ Math.imul(n, 0x9e3779b1));
  const name = `s${n}`;
  return {
    name,
    plan: randomPlan(`#${name}#`, random),
    random,
    arrived: Promise.withResolvers(),
    left: Promise.withResolvers(),
    sent: Promise.withResolvers(),
    exchanges: [],
  };
}

/** Returns the name of the exchange, which is in the prompt. */
function nameIn({ text }: Exchange): string {
  return text.split("#")[1] ?? "";
}

/** Answers as planned. */
async function answer({ plan, ...run }: Run, exchange: Exchange): Promise<void> {
  run.exchanges.push(exchange);
  const { bytes, cutAt, leavesAt, endless } = plan;
  run.arrived.resolve();
  // A client that leaves a whole answer, or before the first byte, does so before there is a head.
  if (leavesAt === 0) await run.left.promise;
  exchange.begin(200, plan.streamed ? {} : { "content-type": "application/json" });
  const push = (start: number, end: number): Promise<unknown> =>
    exchange.push(bytes.subarray(start, end));
  if (leavesAt !== undefined && leavesAt > 0) {
    await push(0, leavesAt);
    await run.left.promise;
  }
  for (let at = leavesAt ?? 0; at < cutAt;) {
    const end = Math.min(cutAt, at + 1 + run.random.int(bytes.length));
    await push(at, end);
    at = end;
  }
  if (endless !== undefined) while ((await exchange.push(endless)) === "taken");
  if (plan.isEnded) exchange.end();
  else exchange.cut();
  run.sent.resolve();
}

/** Sends a request and reads its answer, or leaves as planned. */
async function ask(chat: ChatGateway, run: Run, key: string, agent: Agent): Promise<void> {
  const { api, path, body, leavesAt } = run.plan;
  const sent = request(chat.gateway.url + path, {
    method: "POST",
    agent,
    headers: {
      ...(api === "messages" ? { "x-api-key": key } : { authorization: `Bearer ${key}` }),
      "content-type": "application/json",
      "x-request-id": run.name,
    },
  });
  const closed = new Promise((resolve) => void sent.once("close", resolve));
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once("response", resolve);
    sent.on("error", reject);
  });
  sent.end(JSON.stringify(body));
  if (leavesAt === undefined) {
    run.answer = await read(await response);
    return;
  }
  response.catch(() => {});
  if (leavesAt === 0) await run.arrived.promise;
  else await readUntilLastText(await response);
  sent.destroy();
  await closed;
  run.left.resolve();
}

async function read(response: IncomingMessage): Promise<ClientAnswer> {
  const { statusCode: status = 0, headers } = response;
  const text = (await response.setEncoding("utf8").toArray()).join("");
  return { status, text, usedMilli: headers["x-used-cu-milli"] };
}

async function readUntilLastText(response: IncomingMessage): Promise<void> {
  let text = "";
  for await (const piece of response.setEncoding("utf8").iterator({ destroyOnReturn: false })) {
    text += String(piece);
    if (text.includes(lastText)) return;
  }
  assert.fail(`the text did not arrive: ${text}`);
}

/** Waits until no credit is reserved any more. Returns the milli-CU that each key has used. */
async function usedWhenSettled(chat: ChatGateway, keys: readonly TestKey[]): Promise<number[]> {
  const metering = chat.gateway.gateway.use("metering") ?? assert.fail();
  const limits = { cuLimit24hMilli: undefined, cuLimit30dMilli: undefined };
  for (let turns = 0; ; turns++) {
    const windows: KeyWindows[] = [];
    for (const { keyId: id } of keys) windows.push(await metering.keyWindows({ id, ...limits }));
    const open = sum(windows.map(({ openMilliCu }) => openMilliCu));
    if (open === 0) return windows.map(({ day }) => day.usedMilliCu);
    assert.ok(turns < 20_000, `${open} milli-CU are still reserved`);
    await new Promise(setImmediate);
  }
}

function exportedRows({ gateway }: ChatGateway): UsageJson[] {
  const env = { DATA_DIR: `${gateway.folder}/data`, WORKER_URL: "http://127.0.0.1:1" };
  const lines = sluice(["usage", "export", "--config", `${gateway.folder}/pipeline.yaml`], env);
  return lines
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as UsageJson);
}

/** Asserts that every exchange has the row that its answer costs, and that the sums are equal. */
function assertRows(rows: readonly UsageJson[], runs: ReadonlyMap<string, Run>): void {
  const byName = new Map(rows.map((row) => [row.request_id, row]));
  assert.equal(byName.size, rows.length, "an exchange was charged twice");
  let expectedSum = 0;
  let seenSum = 0;
  let unseenSum = 0;
  for (const run of runs.values()) {
    const row = byName.get(run.name);
    const about = `seed ${seed}, ${run.name}: ${JSON.stringify(row)}\n${describe(run)}`;
    const expected = expectedOf(run);
    const { answer: got } = run;
    assert.deepEqual(row && chargeOf(row), expected && chargeOf(expected), about);
    expectedSum += expected?.used_cu_milli ?? 0;
    const seen = got === undefined ? undefined : seenMilli(got);
    if (seen === undefined) unseenSum += row?.used_cu_milli ?? 0;
    else assert.equal(seen, row?.used_cu_milli, about);
    seenSum += seen ?? 0;
    if (got === undefined) continue;
    assert.equal(got.status, expected === undefined ? 503 : 200, about);
    assert.equal(row?.outcome, expected?.outcome, about);
  }
  const total = sum(rows.map((row) => row.used_cu_milli));
  assert.deepEqual([total, seenSum + unseenSum], [expectedSum, expectedSum]);
  assert.ok(seenSum > 0 && unseenSum > 0);
}

type Charged = Pick<
  UsageJson,
  "input_tokens" | "output_tokens" | "estimated" | "used_cu_milli" | "outcome"
>;

function chargeOf({ input_tokens, output_tokens, estimated, used_cu_milli }: Charged): object {
  return { input_tokens, output_tokens, estimated, used_cu_milli };
}

function expectedOf({ plan, exchanges }: Run): Charged | undefined {
  assert.ok(exchanges.length <= 1, "a request was sent to the worker twice");
  const [received] = exchanges;
  if (received === undefined) return undefined;
  const { bytes, cutAt, isEnded, endless } = plan;
  // An endless answer is much longer than its limit.
  const written = endless === undefined ? bytes.subarray(0, cutAt) : repeated(endless);
  const charge = expectedCharge({ received, bytes: written, isEnded });
  return (
    charge && {
      input_tokens: charge.inputTokens,
      output_tokens: charge.outputTokens,
      estimated: charge.estimated,
      used_cu_milli: charge.milli,
      outcome: charge.isComplete ? "complete" : "upstreamFailed",
    }
  );
}

/** Returns more than 4 × (500 + 63 + 32) choices. */
function repeated(events: Buffer): Buffer {
  return Buffer.concat(Array.from({ length: 130 }, () => events));
}

/** Returns the charge that a client has read. Undefined if the answer contains none. */
function seenMilli({ text, usedMilli }: ClientAnswer): number | undefined {
  const found = text.split('"usedCUMilli":').slice(1).at(-1);
  if (found === undefined) {
    assert.equal(usedMilli, undefined);
    return undefined;
  }
  const seen = Number.parseInt(found, 10);
  if (usedMilli !== undefined) assert.equal(Number(usedMilli), seen);
  return seen;
}

function describe({ plan, exchanges, answer: got }: Run): string {
  const { bytes, cutAt, ...rest } = plan;
  const written = bytes.subarray(0, cutAt).toString();
  return JSON.stringify({ ...rest, exchanges: exchanges.length, written, got }, undefined, 1);
}
