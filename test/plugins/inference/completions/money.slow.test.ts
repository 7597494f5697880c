/**
 * Random exchanges over the three APIs for completions through a whole gateway: each is charged what the worker's answer
 * costs, once, and no reservation stays open. `MONEY_STREAMS=100000` runs more of them, half of them with one thread and half with three, and `MONEY_SEED` repeats a run.
 */
import assert from "node:assert/strict";
import { Agent, request, type IncomingMessage } from "node:http";
import { test } from "node:test";
import type { KeyWindows } from "sluice-gateway/services";
import { createRandom, type Random } from "../../../../bench/soak/random.ts";
import type { TestKey } from "../../../../plugins/contracts/testing.ts";
import type { UsageJson } from "../../../../plugins/billing/metering/charge-text.ts";
import { sluiceLines } from "../../../e2e/gateway-process.ts";
import { startChat, type ChatGateway } from "../chat/gateway.ts";
import type { Exchange } from "../networks/scripted-worker.ts";
import {
  expectedCharge,
  networks,
  sum,
  tokenCap,
  usdRate,
  type Prices,
} from "./expected-charge.ts";
import { lastText, randomPlan, type Plan } from "./random-stream.ts";

const streams = Number(process.env["MONEY_STREAMS"] ?? 2_000);
const seed = Number(process.env["MONEY_SEED"] ?? Date.now() | 0);
const timeout = 60_000 + streams * 60;
/** Each client has its own key and workspace, because a workspace may send 200 requests per second. */
const clients = 32;

interface Run {
  readonly name: string;
  readonly plan: Plan;
  readonly random: Random;
  readonly arrived: PromiseWithResolvers<void>;
  readonly left: PromiseWithResolvers<void>;
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

for (const threads of [1, 3]) {
  test(
    `random exchanges with server.threads ${threads} cost exactly what the answers of the worker cost`,
    { timeout },
    () => judgeRun(threads),
  );
}

async function judgeRun(threads: number): Promise<void> {
  const runs = new Map<string, Run>();
  const ended = new Ended();
  await using chat = await startChat({
    threads,
    network: networkOptions,
    networks: [networkWith("usual", networks.usual), networkWith("unusual", networks.unusual)].join(
      "\n",
    ),
    price: String(networks.classic.prompt / 10),
    rate: `"${usdRate}"`,
    otherwise: (exchange) => {
      // The worker would keep every request.
      chat.worker.received.length = 0;
      return answer(runs.get(nameIn(exchange)) ?? assert.fail(exchange.text), exchange);
    },
  });
  const keys = await Promise.all(
    Array.from({ length: clients }, () => chat.gateway.issue({ overageLimitCuMilli: 1e12 })),
  );
  await knowsNewest(chat.gateway.url, await chat.gateway.issue({}));
  let next = 0;
  const client = async ({ key }: TestKey): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let n = next++; n < streams / 2; n = next++) {
      const run = runOf(n);
      runs.set(run.name, run);
      await ask(chat, run, key, agent);
      if (run.exchanges.length > 0) await run.sent.promise;
      ended.judge(run);
      runs.delete(run.name);
    }
    agent.destroy();
  };
  await Promise.all(keys.map(client));
  // The windows have the charges of threads when these have sent them, which no interface shows.
  const used = threads === 1 ? await usedWhenSettled(chat, keys) : undefined;
  await chat.gateway.gateway.stop();
  const exported = await ended.compare(exportedRows(chat));
  for (const [at, milli] of used?.entries() ?? []) {
    assert.equal(milli, exported.get(keys[at]?.keyId ?? "") ?? 0, "the window of a key");
  }
}

/** Waits until every thread knows the newest key, and so all others. Each connection belongs to one of them. */
async function knowsNewest(url: string, { key }: TestKey): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, connection: "close" };
  for (let accepted = 0; accepted < 40;) {
    const response = await fetch(`${url}/v1/models`, { headers });
    await response.text();
    accepted = response.status === 200 ? accepted + 1 : 0;
  }
}

const networkOptions = `passes: [tools, sampling, format, images, reasoning], maxOutputTokens: ${tokenCap}`;

function networkWith(name: string, prices: Prices): string {
  const classes = Object.entries(prices).map(([each, tenths]) => `${each}: "${tenths / 10}"`);
  const price = `price_per_token_nano: { ${classes.join(", ")} }`;
  return `  ${name}: { kind: openai, url: "\${WORKER_URL}", ${price}, ${networkOptions} }`;
}

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

function nameIn({ text }: Exchange): string {
  return text.split("#")[1] ?? "";
}

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

async function* exportedRows({ gateway }: ChatGateway): AsyncGenerator<UsageJson> {
  const env = { DATA_DIR: `${gateway.folder}/data`, WORKER_URL: "http://127.0.0.1:1" };
  const args = ["usage", "export", "--config", `${gateway.folder}/pipeline.yaml`];
  for await (const line of sluiceLines(args, env)) yield JSON.parse(line) as UsageJson;
}

class Ended {
  readonly #charges = new Map<string, Charged>();
  #expectedMilli = 0;
  #seenMilli = 0;

  judge(run: Run): void {
    const { answer: got } = run;
    const expected = expectedOf(run);
    if (expected !== undefined) this.#charges.set(run.name, expected);
    this.#expectedMilli += expected?.used_cu_milli ?? 0;
    if (got === undefined) return;
    const about = describe(run);
    assert.equal(got.status, expected === undefined ? 503 : 200, about);
    const seen = seenMilli(got);
    if (seen !== undefined) assert.equal(seen, expected?.used_cu_milli, about);
    this.#seenMilli += seen ?? 0;
  }

  /** Asserts that each exchange has one row with its charge, and that the sums agree. Returns the milli-CU per key. */
  async compare(rows: AsyncIterable<UsageJson>): Promise<Map<string, number>> {
    const milliOfKeys = new Map<string, number>();
    for await (const row of rows) {
      const { request_id: name, key_id: key, used_cu_milli: milli } = row;
      const expected =
        this.#charges.get(name) ?? assert.fail(`charged twice, or for nothing: ${name}`);
      this.#charges.delete(name);
      const { input_tokens, output_tokens, cached_tokens, reasoning_tokens, estimated } = row;
      const outcome = expected.outcome && row.outcome;
      const tokens = { input_tokens, output_tokens, cached_tokens, reasoning_tokens };
      const charged = { ...tokens, estimated, used_cu_milli: milli, outcome };
      const about = describe(runOf(Number(name.slice(1))));
      assert.deepEqual(charged, expected, about);
      milliOfKeys.set(key, (milliOfKeys.get(key) ?? 0) + milli);
    }
    assert.deepEqual([...this.#charges.keys()], [], "exchanges that were not charged");
    assert.equal(sum([...milliOfKeys.values()]), this.#expectedMilli);
    assert.ok(this.#seenMilli > 0 && this.#seenMilli < this.#expectedMilli);
    return milliOfKeys;
  }
}

interface Charged extends Pick<
  UsageJson,
  | "input_tokens"
  | "output_tokens"
  | "cached_tokens"
  | "reasoning_tokens"
  | "estimated"
  | "used_cu_milli"
> {
  /** Undefined if the client has left, because it depends on the time whether the exchange failed before. */
  readonly outcome: UsageJson["outcome"] | undefined;
}

function expectedOf({ plan, exchanges, answer: got }: Run): Charged | undefined {
  assert.ok(exchanges.length <= 1, "a request was sent to the worker twice");
  const [received] = exchanges;
  if (received === undefined) return undefined;
  const { network, bytes, cutAt, isEnded, endless } = plan;
  // An endless answer is much longer than its limit.
  const written = endless === undefined ? bytes.subarray(0, cutAt) : repeated(endless);
  const charge = expectedCharge({ network, received, bytes: written, isEnded });
  return (
    charge && {
      input_tokens: charge.inputTokens,
      output_tokens: charge.outputTokens,
      cached_tokens: charge.cachedTokens,
      reasoning_tokens: charge.reasoningTokens,
      estimated: charge.estimated,
      used_cu_milli: charge.milli,
      outcome: got && (charge.isComplete ? "complete" : "upstreamFailed"),
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

function describe({ name, plan, exchanges, answer: got }: Run): string {
  const { bytes, cutAt, ...rest } = plan;
  const written = bytes.subarray(0, cutAt).toString();
  const known = { seed, name, ...rest, exchanges: exchanges.length, written, got };
  return JSON.stringify(known, undefined, 1);
}
