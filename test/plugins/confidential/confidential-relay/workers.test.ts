/** The choice of a worker, the prices of its tokens, and hostile workers. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, beforeEach, describe, it, test, type TestContext } from "node:test";
import * as fc from "fast-check";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { model, startEnclaveWorker, type EnclaveWorker, type Script } from "./enclave-worker.ts";
import { openStream, openWire, type OpenStream } from "./stream-client.ts";
import { startWorker } from "../../inference/networks/scripted-worker.ts";
import { startStreamGateway, tokenMilli, type StreamGateway } from "./stream-gateway.ts";
import { until } from "./wait.ts";
import { readPricing, recomputeCost } from "../../../../plugins/confidential/client/cost.ts";
import { fromBase64Url } from "../../../../plugins/confidential/protocol/encoding.ts";
import { readReport } from "../../../../plugins/confidential/protocol/usage-report.ts";
import { untilAllReady } from "../../all-ready.ts";
import { Receipts } from "../../../../plugins/confidential/confidential-relay/receipts.ts";
import { SqlRetryCredits } from "../../../../plugins/confidential/confidential-relay/sql-retry-credits.ts";
import { listen } from "../../../../src/http/demo-server.ts";

const twoWorkers = `
version: 1
server: { port: "\${PORT}", drainSeconds: 1, drainDelaySeconds: 0 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
rate: "0.25"
networks:
  alpha: { kind: enclave, url: "\${URL}", origins: ["\${OTHER}"], status: { url: "\${STATUS_URL}" }, evidence: { kind: simulated } }
routes:
  - path: /v1/confidential/stream
    websocket: true
    run: [authenticate, meter]
    to: { confidential-stream: {} }
`;

describe("the choice between two workers", () => {
  const stack = new AsyncDisposableStack();
  let cheap: EnclaveWorker;
  let dear: EnclaveWorker;
  let gateway: TestGateway;

  before(async () => {
    cheap = stack.use(await startEnclaveWorker());
    dear = stack.use(await startEnclaveWorker());
    const entry = (id: string, coefficient: number, { url }: EnclaveWorker): object => {
      return { id, model, coefficient, state: "active", url };
    };
    const workers = [entry("cheap", 1000, cheap), entry("dear", 2000, dear)];
    const status = createServer((_, response) =>
      response.end(JSON.stringify({ price_per_token_nano: "12", workers })),
    );
    const STATUS_URL = `${await listen(status, 0, "127.0.0.1")}/`;
    stack.defer(() => void status.close());
    const env = { URL: cheap.url, OTHER: new URL("/", dear.url).href, STATUS_URL };
    gateway = stack.use(await startTestGateway({ pipeline: twoWorkers, env }));
    // On a busy machine, a gateway can start before it has reached both workers.
    const networks = gateway.gateway.use("networks")!;
    await until(() => networks.open[0]?.models.get(model)?.workers.length === 2);
  });
  after(() => stack.disposeAsync());
  beforeEach(() => {
    cheap.script = {};
    dear.script = {};
  });

  const open = async (maxCoefficient?: number): Promise<OpenStream> => {
    const headers = { authorization: `Bearer ${gateway.key}` };
    const wire = await openWire(`${gateway.url}/v1/confidential/stream`, { headers });
    return openStream(wire, { maxCoefficient });
  };
  const coefficientOf = ({ attestation }: OpenStream): unknown =>
    // The gateway's own offer.
    (attestation.offer as { coefficient: number }).coefficient;

  it("never chooses a worker above the client's maximum price, however busy the other one is", async () => {
    using first = await open(1999);
    using second = await open(1999);
    using third = await open(1999);
    assert.deepEqual([first, second, third].map(coefficientOf), [1000, 1000, 1000]);
  });

  it("tries the other worker after a failed handshake, without an error for the client", async () => {
    let failed = 0;
    cheap.script = {
      answer() {
        failed++;
        return '{"type":"error","error":"","code":"UPSTREAM_FAILED"}';
      },
    };
    using first = await open();
    // The worker that is idle now is asked first, unless it was asked before.
    using second = await open();
    assert.deepEqual([first, second].map(coefficientOf), [2000, 2000]);
    assert.ok(failed > 0);
    second.ask();
    assert.equal((await second.answer()).final["finish_reason"], "stop");
  });
});

test("a rate that cannot be read refuses sessions, in an enclave and in the gateway as an enclave", async () => {
  await using source = await startWorker();
  source.documents.set("/rate", 500);
  const rate = `"${source.url}/rate#/usd"`;
  await using stream = await startStreamGateway({ own: true, rate, prepare: () => {} });
  await assert.rejects(stream.open(), /MODEL_NOT_AVAILABLE/);
  const own = { network: "classic", termination: "gateway" } as const;
  await assert.rejects(stream.open(own), /MODEL_NOT_AVAILABLE/);
});

const classes = { prompt: "12", cached: "2", completion: "40", reasoning: "100" };
/** Milli-CU per token, at 0.25 USD. */
const milli = { prompt: 3, cached: 0.5, completion: 10, reasoning: 25 };
const tokens = { prompt: 20, completion: 9, cached: 16, reasoning: 4 };
const tokensMilli =
  4 * milli.prompt + 16 * milli.cached + 5 * milli.completion + 4 * milli.reasoning;

describe("an encrypted network that prices classes of tokens", { timeout: 60_000 }, () => {
  let stream: StreamGateway;
  before(async () => {
    // The worker is ready before the gateway, so that the first status has the prices.
    stream = await startStreamGateway({ prepare: (worker) => (worker.price = classes) });
    await untilAllReady(stream.gateway);
  });
  after(() => stream[Symbol.asyncDispose]());

  it("offers them, bills by the counts of the signed report, and keeps them in the receipt", async () => {
    stream.worker.script = { tokens };
    using session = await stream.open();
    assert.partialDeepStrictEqual(session.attestationJson["offer"], {
      pricePerTokenNano: "100",
      classes,
    });
    session.ask();
    const { done } = await session.answer();
    assert.equal(done.usedCUMilli, tokensMilli);
    assert.deepEqual([done.pricing.pricePerTokenNano, done.pricing.classes], ["100", classes]);
    const report = readReport(fromBase64Url(done.report) ?? new Uint8Array());
    const pricing = readPricing(done.pricing);
    assert.ok(report && pricing);
    assert.equal(recomputeCost(report, pricing), tokensMilli);
    const charge = (await stream.charges()).at(-1);
    assert.deepEqual(
      [charge?.usedMilliCu, charge?.inputTokens, charge?.outputTokens, charge?.pricing?.classes],
      [tokensMilli, 20, 9, classes],
    );
    const path = `/v1/confidential/receipts/${report.session}/1`;
    const receipt = (await (await stream.get(path, stream.gateway.key)).json()) as typeof done;
    assert.deepEqual(receipt.pricing, done.pricing);
  });

  it("counts a part that is larger than its whole as 0, as clients do, and says why it is not verified", async () => {
    const lie = { ...tokens, cached: 21, reasoning: 10 };
    stream.worker.script = { tokens: lie };
    const { done } = await stream.chat();
    assert.equal(done.usage.unverified_reason, "usage_mismatch");
    const cost = 20 * milli.prompt + 9 * milli.completion;
    const pricing = readPricing(done.pricing);
    assert.ok(pricing);
    assert.deepEqual(
      [done.usedCUMilli, recomputeCost({ coefficient: 1000, tokens: lie }, pricing)],
      [cost, cost],
    );
  });

  it("reserves the dearer price of the prompt and the dearer price of the completion", async () => {
    const reserved = 288 * milli.prompt + 100 * milli.reasoning;
    // The whole completion is reasoning, and the prompt is longer than the frame, so the bill is what was reserved.
    stream.worker.script = { tokens: { prompt: 600, completion: 100, cached: 0, reasoning: 100 } };
    const { done } = await stream.chat();
    assert.equal(done.usedCUMilli, reserved);
  });

  it("charges answers of its workers to chat by the same report", async () => {
    stream.worker.script = { tokens };
    const { url, key } = stream.gateway;
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "x".repeat(80) }] }),
    });
    assert.partialDeepStrictEqual(await answer.json(), { usage: { usedCUMilli: tokensMilli } });
  });
});

/** One frame of 288 bytes and 100 tokens of an answer. */
const reservedMilliCu = (288 + 100) * tokenMilli;

describe("a hostile worker", () => {
  let stream: StreamGateway;
  before(async () => {
    stream = await startStreamGateway();
  });
  after(async () => {
    assert.ok((await stream.charges()).every(({ usedMilliCu }) => usedMilliCu <= reservedMilliCu));
    await stream[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    stream.worker.script = {};
  });

  async function isServed(): Promise<void> {
    stream.worker.script = {};
    const { deltas, done } = await stream.chat();
    assert.deepEqual(deltas, [{ content: "Hello" }, { content: " world" }]);
    assert.equal(done.usedCUMilli, 7 * tokenMilli);
  }

  async function drain(session: OpenStream): Promise<number> {
    session.socket.on("message", () => {});
    return session.closed;
  }

  it("that reports absurd token counts leaves only bounded numbers in the journal", async () => {
    const most = Number.MAX_SAFE_INTEGER;
    stream.worker.script = { tokens: { prompt: most, completion: most, cached: 0, reasoning: 0 } };
    for (let times = 0; times < 3; times++) {
      const { done } = await stream.chat();
      assert.equal(done.usage.unverified_reason, "usage_mismatch");
      assert.equal(done.usedCUMilli, reservedMilliCu);
    }
    const last = (await stream.charges()).at(-1);
    assert.equal(last?.inputTokens, 288 + 16_384);
    assert.equal(last?.outputTokens, 100);
    await isServed();
  });

  const fail = (): never => {
    throw new Error("out of order");
  };
  const exceptions: readonly (readonly [string, (t: TestContext) => { restore(): void }])[] = [
    ["a receipt", (t) => t.mock.method(Receipts.prototype, "keep", fail).mock],
    ["a bill", (t) => t.mock.method(SqlRetryCredits.prototype, "take", fail).mock],
  ];
  for (const [what, breakIt] of exceptions) {
    it(`an exception about ${what} ends only its session and releases its reservation`, async (t) => {
      const broken = breakIt(t);
      using session = await stream.open();
      session.ask();
      assert.equal(await drain(session), 1011);
      broken.restore();
      await until(async () => (await stream.gauge("sluice_stream_sessions")) === 0);
      await isServed();
    });
  }

  const bytes = fc.uint8Array({ maxLength: 400 });
  const change = fc.record({
    at: fc.nat(3),
    kind: fc.constantFrom("drop", "garbage", "flip", "cut", "keep"),
    bit: fc.nat(2_000),
    garbage: bytes,
  });
  const reportTexts = fc.oneof(fc.string({ maxLength: 200 }), fc.json(), fc.constant(undefined));
  const count = fc.oneof(fc.nat(200), fc.maxSafeNat());

  it("that sends arbitrary frames and reports ends its sessions and leaves none open", async () => {
    const anything = fc.record({
      change,
      report: fc.option(reportTexts, { freq: 2, nil: "as it should be" }),
      prompt: count,
      completion: count,
      isLeft: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(anything, async ({ change: one, report, prompt, completion, isLeft }) => {
        const script: Script = {
          frame: (frame, index) => (index === one.at ? changed(frame, one) : frame),
          tokens: { prompt, completion, cached: 0, reasoning: 0 },
          ...(report !== "as it should be" && { reportFrame: () => report }),
        };
        stream.worker.script = script;
        using session = await stream.open();
        session.ask();
        await session.next();
        if (isLeft) session.socket.terminate();
        // Lost frames are noticed only at the deadline, for which this test does not wait.
        else session.socket.close();
        await drain(session);
      }),
      { numRuns: 60, seed: 20_261_122 },
    );
    stream.worker.cut();
    await until(async () => (await stream.gauge("sluice_stream_sessions")) === 0);
    assert.equal(await stream.gauge("sluice_stream_unfinished_bytes"), 0);
    assert.ok(!stream.gateway.lines.some((line) => line.includes("uncaught")));
    await until(async () => (await stream.get("/v1/models", stream.gateway.key)).ok);
    await isServed();
  });
});

function changed(
  frame: Uint8Array<ArrayBuffer>,
  { kind, bit, garbage }: { kind: string; bit: number; garbage: Uint8Array },
): Uint8Array<ArrayBuffer> | undefined {
  if (kind === "drop") return undefined;
  if (kind === "garbage") return Uint8Array.from(garbage);
  if (kind === "cut") return frame.slice(0, bit % frame.length);
  if (kind === "keep") return frame;
  const flipped = Uint8Array.from(frame);
  const at = (bit >> 3) % flipped.length;
  flipped[at] = (flipped[at] ?? 0) ^ (1 << (bit & 7));
  return flipped;
}
