/** The service `networks` with scripted workers: which worker is chosen, at which price, and what becomes of connections. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { BackendStatus, Host } from "sluice-gateway/plugin";
import type {
  AnswerReader,
  InferenceFailure,
  InferenceResult,
  ModelOverride,
  Networks,
  Offer,
} from "sluice-gateway/services";
import plugin from "../../../../plugins/inference/networks/index.ts";
import { whenStable } from "../../../http/forwarding-gateway.ts";
import { observed, type Observed } from "./observed-services.ts";
import { chunkOf, eventOf } from "./chat-events.ts";
import { cutImmediately, failing, raw, silent, streamed, whole } from "./worker-scripts.ts";
import { startWorker, type Worker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };
const model = "Test/Model-1";

/** A network of pipeline.yaml with its defaults. It costs 3 milli-CU per token. */
const entry = {
  kind: "openai",
  origins: [],
  status: { every: "1000s" },
  price_per_token_nano: "12",
  rate: "0.25",
  headers: {},
  connectMs: 2_000,
  idleMs: 86_400_000,
  answerMs: 86_400_000,
  maxOutputTokens: 1_000_000,
  passes: [],
  speaks: [],
  affinity: "session",
  imageTokens: 4_096,
} as const;

interface Opened extends AsyncDisposable {
  readonly networks: Networks;
  readonly seen: Observed;
  override(...overrides: readonly ModelOverride[]): void;
  offer(network?: string): Offer;
  backend(): BackendStatus;
  workers(): readonly WorkerDetails[];
  ask(over?: AskOptions): Promise<Ending>;
  /** Reads the next due document again: the status or the rate. */
  readAgain(): Promise<void>;
}

interface WorkerDetails {
  readonly name: string;
  readonly state: string;
  readonly in_flight: number;
  readonly reason?: string;
  readonly since?: string;
  readonly next_try?: string;
}

interface AskOptions {
  readonly streamed?: boolean;
  readonly headers?: readonly string[];
  /** Pauses after each arrival, until the next turn of the event loop at the earliest. */
  readonly pauses?: () => Promise<unknown>;
}

interface Ending {
  readonly text: string;
  readonly result?: InferenceResult | undefined;
  readonly failure?: InferenceFailure;
}

/** Starts the service with one network. Disposing it asserts that no worker has a request in flight. */
function openNetwork(url: string, network: object = {}): Promise<Opened> {
  return openNetworks({ net: { url, ...network } });
}

async function openNetworks(given: Readonly<Record<string, object>>): Promise<Opened> {
  const seen = observed();
  let overrides: ReadonlyMap<string, ModelOverride> = new Map();
  const networks = Object.entries(given).map(([name, network]) => [name, { ...entry, ...network }]);
  const accounts = { overrides: () => overrides };
  // The service uses only these members of the host.
  const host = { ...seen, threads: undefined, use: () => accounts } as unknown as Host;
  await using closing = new AsyncDisposableStack();
  const started = await plugin.start({ networks: Object.fromEntries(networks) }, host, {
    keep(_, open, close) {
      const part = open();
      closing.defer(() => close(part));
      return part;
    },
    isDefault: () => false,
  });
  await started.initialized?.();
  const { service } = started;
  const backend = (): BackendStatus => started.backends?.()[0] ?? assert.fail();
  // The service writes these details for `/readyz`.
  const workers = () => (backend().details as { workers: WorkerDetails[] }).workers;
  const offer = (name?: string): Offer => service.find(model, name) ?? assert.fail();
  const close = closing.move();
  return {
    networks: service,
    seen,
    override(...more) {
      overrides = new Map(more.map((one) => [one.id, one]));
    },
    offer,
    backend,
    workers,
    ask: (options) => ask(offer(), options),
    async readAgain() {
      const read = seen.timer((ms) => ms > 800_000);
      const before = seen.timers.length;
      // The time advances only until the answer begins, which sets its limit of 5 s, so that the answer has time to
      // end.
      while (!seen.timers.slice(before).includes(5_000)) seen.clock.advance(1_000);
      await read;
    },
    async [Symbol.asyncDispose]() {
      assert.deepEqual(
        workers().filter((worker) => worker.in_flight !== 0),
        [],
      );
      await close.disposeAsync();
    },
  };
}

function ask(
  offer: Offer,
  { streamed: stream = true, headers, pauses }: AskOptions = {},
  readerOf = (reader: AnswerReader): AnswerReader => reader,
): Promise<Ending> {
  const asked = { model, stream, stream_options: { include_usage: true } };
  const { promise, resolve } = Promise.withResolvers<Ending>();
  let text = "";
  const reader: AnswerReader = {
    onChoice(bytes, start, end) {
      // Tests read only members of a choice that their scripts wrote.
      const { delta } = JSON.parse(bytes.toString("utf8", start, end)) as {
        delta: { content?: string };
      };
      text += delta.content ?? "";
    },
    onRead() {
      if (pauses === undefined) return;
      call.pause();
      void pauses().then(() => call.resume());
    },
    onEnd: (result, message) => resolve({ result, text: message?.content ?? text }),
    onError: (failure, result) => resolve({ failure, result, text }),
  };
  const body = Buffer.from(JSON.stringify(asked));
  const call = offer.send({ body, streamed: stream, promptBytes: 20, headers }, readerOf(reader));
  return promise;
}

async function resultOf(asked: Promise<Ending>): Promise<InferenceResult> {
  const { failure, result } = await asked;
  assert.equal(failure, undefined);
  return result ?? assert.fail();
}

type Listed = { readonly url?: string } & Readonly<Record<string, unknown>>;

async function listing(at: Worker, workers: readonly Listed[], over: object = {}): Promise<Opened> {
  list(at, workers);
  const origins = workers.flatMap(({ url }) => (url === undefined ? [] : [new URL(url).origin]));
  return openNetwork(at.url, { status: statusAt(at), origins, ...over });
}

const statusAt = ({ url }: Worker): object => ({ url: `${url}/status`, every: "1000s" });

function list(at: Worker, workers: readonly object[], more: object = {}): void {
  const listed = workers.map((worker) => ({ model, ...worker }));
  at.documents.set("/status", { price_per_token_nano: "12", workers: listed, ...more });
}

test("the dearest worker is reserved for, and draining workers get nothing", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, [
    { id: "w1", coefficient: 3000 },
    { id: "w2", coefficient: 500, state: "busy" },
    { id: "w3", coefficient: 9000, state: "draining" },
  ]);
  assert.equal(opened.offer().maxMilliCu(900, 100), 9_000);
  list(worker, [{ id: "w1", state: "draining" }]);
  await opened.readAgain();
  assert.equal((await opened.ask()).failure, "unavailable");
  assert.equal(worker.received.length, 0);
});

test("price and rate are those at the time when the worker was chosen", inTime, async () => {
  await using worker = await startWorker();
  worker.documents.set("/rate", { usd: "0.25" });
  const rate = { url: `${worker.url}/rate`, pointer: "/usd", every: "1500s", maxAge: "24h" };
  await using opened = await listing(worker, [{ id: "w1", coefficient: 1500 }], { rate });
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  const chosenAt = new Date(opened.seen.clock.now()).toISOString();
  list(worker, [{ id: "w1", coefficient: 5000 }], { price_per_token_nano: "1000" });
  worker.documents.set("/rate", { usd: "9" });
  // The status, and then the rate.
  await opened.readAgain();
  await opened.readAgain();
  assert.equal(opened.networks.models()[0]?.promptPriceCUMilli, 45_000);
  await streamed()(exchange);
  const { costMilliCu, worker: served } = await resultOf(asked);
  // 7 tokens × 12 × 1.5 × 0.25 = 31.5.
  assert.equal(costMilliCu, 32);
  assert.deepEqual(served.pricing, {
    network: "net",
    coefficient: 1500,
    pricePerTokenNano: "12",
    tokenUsdRate: "0.25",
    asOf: chosenAt,
  });
});

test("a worker that is no longer listed only completes its requests", inTime, async () => {
  await using home = await startWorker();
  await using old = await startWorker();
  await using young = await startWorker({ otherwise: streamed() });
  const before = ["w1", "w2"].map((id) => ({ id, url: old.url }));
  const origins = [old.url, young.url];
  await using opened = await listing(home, before, { origins });
  const held = [old.hold(), old.hold()];
  const asked = held.map(() => opened.ask());
  const [first, second] = await Promise.all(held);
  list(home, [{ id: "w1", url: young.url }]);
  await opened.readAgain();
  assert.equal((await resultOf(opened.ask())).worker.id, "w1");
  assert.equal(young.received.length, 1);
  await streamed()(first ?? assert.fail());
  // A retry uses the current workers.
  second?.cut();
  for (const one of asked) assert.equal((await resultOf(one)).finishReason, "stop");
  assert.deepEqual([old.received.length, young.received.length], [2, 2]);
});

test("nothing is kept of a model that is not listed any more", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, [{ id: "w1" }, { id: "w2" }]);
  const createdAt = (): number | undefined => opened.networks.models()[0]?.createdAt;
  const first = createdAt();
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  list(worker, []);
  await opened.readAgain();
  exchange.cut();
  assert.equal((await asked).failure, "unavailable");
  list(worker, [{ id: "w1" }]);
  await opened.readAgain();
  assert.ok(Number(createdAt()) > Number(first));
});

test("requests are distributed by the number of requests in flight", inTime, async () => {
  await using one = await startWorker({ otherwise: silent });
  await using other = await startWorker({ otherwise: silent });
  await using opened = await listing(one, [
    { id: "w1", url: one.url },
    { id: "w2", url: other.url },
  ]);
  const holding = [one, one, one, other, other, other].map((worker) => worker.hold());
  const asked = holding.map(() => opened.ask());
  for (const exchange of await Promise.all(holding)) await streamed()(exchange);
  await Promise.all(asked);
  assert.deepEqual([one.received.length, other.received.length], [3, 3]);
});

test("at most three workers are tried, and 429 ejects none of them", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(429) });
  const workers = ["a", "b", "c", "d"].map((id) => ({ id }));
  await using opened = await listing(worker, workers);
  for (let n = 1; n < 4; n++) {
    assert.equal((await opened.ask()).failure, "unavailable");
    assert.equal(worker.received.length, 3 * n);
  }
  assert.ok(opened.workers().every(({ state }) => state !== "left out"));
});

test("while the status has no price, the last or the configured one is used", inTime, async () => {
  await using worker = await startWorker();
  worker.documents.set("/status", { workers: [{ id: "w1", model }] });
  await using opened = await openNetwork(worker.url, {
    status: statusAt(worker),
    price_per_token_nano: "4",
  });
  const shown = (): unknown => opened.networks.models()[0]?.promptPriceCUMilli;
  assert.equal(shown(), 1);
  list(worker, [{ id: "w1" }]);
  await opened.readAgain();
  assert.equal(shown(), 3);
  for (const document of [{ workers: [{ id: "w1", model }] }, "garbage"]) {
    worker.documents.set("/status", document);
    await opened.readAgain();
    assert.equal(shown(), 3);
    assert.equal(opened.offer().activeWorkers, 1);
  }
});

test("the path of a worker's URL precedes /v1, and no URL breaks the list", inTime, async () => {
  const odd = ["http://v1", "http://127.0.0.1:1/v1/", "http://127.0.0.1:1//v1", "https://v1/v1"];
  await using worker = await startWorker({ otherwise: streamed() });
  await using opened = await listing(worker, [
    ...odd.map((url) => ({ id: url, url, model: url })),
    { id: "w1", url: `${worker.url}/deep/er/v1/` },
  ]);
  assert.deepEqual(
    [...(opened.networks.open[0]?.models.keys() ?? [])].toSorted(),
    [model, ...odd].toSorted(),
  );
  await resultOf(opened.ask());
  assert.equal(worker.received[0]?.path, "/deep/er/v1/chat/completions");
});

test("an override replaces the prices of the network, also by one price", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  const classes = { prompt: "20", cached: "4", completion: "40", reasoning: "80" };
  await using opened = await listing(worker, [{ id: "w1", coefficient: 2000 }]);
  list(worker, [{ id: "w1", coefficient: 2000 }], { price_per_token_nano: classes });
  await opened.readAgain();
  const cost = async (): Promise<number> => (await resultOf(opened.ask())).costMilliCu;
  // 5 tokens of the prompt and 2 of the completion, at 0.25 USD.
  assert.equal(await cost(), 2 * 0.25 * (5 * 20 + 2 * 40));
  const plain = { id: model, enabled: true, ownedBy: undefined, priceCoefficient: undefined };
  opened.override({ ...plain, prices: { pricePerTokenNano: "12" } });
  assert.equal(await cost(), 2 * 0.25 * 7 * 12);
  assert.equal(opened.offer().maxMilliCu(10, 5), 2 * 0.25 * 15 * 12);
  const own = { prompt: "4", cached: "0", completion: "8", reasoning: "0" };
  opened.override({
    ...plain,
    priceCoefficient: 4000,
    prices: { pricePerTokenNano: "8", classes: own },
  });
  assert.equal(await cost(), 4 * 0.25 * (5 * 4 + 2 * 8));
  assert.equal(opened.offer().maxMilliCu(10, 5), 4 * 0.25 * (10 * 4 + 5 * 8));
});

test("an unreachable worker is ejected and probed until it answers", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  await using other = await startWorker({ otherwise: streamed() });
  const workers = [
    { id: "w1", url: worker.url },
    { id: "w2", url: other.url },
  ];
  await using opened = await listing(other, workers);
  const { seen } = opened;
  const rests = (): number[] =>
    seen.timers.filter((ms) => [2, 4, 8, 16, 32, 60].includes(ms / 1000));
  await worker.refuse();
  const before = rests().length;
  while (!opened.seen.lines.includes("warn a worker was ejected after failures")) {
    assert.equal((await resultOf(opened.ask())).worker.id, "w2");
  }
  const cooldowns = [2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
  for (const [at, ms] of cooldowns.entries()) {
    while (rests().length === before + at) await new Promise(setImmediate);
    seen.clock.advance(ms);
  }
  await worker.accept();
  seen.clock.advance(60_000);
  while (!seen.lines.includes("info a worker is available again")) {
    seen.clock.advance(1_000);
    await new Promise(setImmediate);
  }
  assert.ok(worker.reads.every((path) => path === "/v1/models"));
});

test("a worker is left out while it refuses the credentials", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(401) });
  await using opened = await openNetwork(worker.url);
  for (let n = 0; n < 3; n++) assert.ok((await opened.ask()).failure);
  const { reason, since, next_try: next } = opened.workers()[0] ?? {};
  const { host } = new URL(worker.url);
  assert.equal(reason, `unauthorized: status 401 (worker_error) at ${host}`);
  assert.equal(Date.parse(String(next)) - Date.parse(String(since)), 2_000);
  // Its list of models needs no credentials, so that list proves nothing.
  opened.seen.clock.advance(2_000);
  while (worker.received.length < 4) await new Promise(setImmediate);
  await worker.idle();
  assert.deepEqual(worker.received.at(-1)?.body, {});
  assert.equal(opened.backend().ready, "no usable worker");
  worker.script(failing(400));
  // The cooldown begins when the answer of the probe has been read.
  while (opened.backend().ready !== true) {
    opened.seen.clock.advance(1_000);
    await new Promise(setImmediate);
  }
});

test("the first network with an active worker serves, or the named one", inTime, async () => {
  await using one = await startWorker();
  await using other = await startWorker();
  list(one, [{ id: "w1", state: "draining" }]);
  list(other, [{ id: "w2" }]);
  await using opened = await openNetworks({
    first: { url: one.url, status: statusAt(one) },
    second: { url: other.url, status: { ...statusAt(other), every: "10h" } },
  });
  const found = (name?: string): string => opened.offer(name).network;
  assert.deepEqual([found(), found("first")], ["second", "first"]);
  list(one, [{ id: "w1" }]);
  await opened.readAgain();
  assert.equal(found(), "first");
});

test("a network that lists no workers any more is logged once", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, []);
  const line = "warn the network lists no usable worker, so it has no models";
  for (const [workers, lines] of [
    [[], [line]],
    [[{ id: "w1" }], [line]],
    [[], [line, line]],
  ] as const) {
    list(worker, workers);
    await opened.readAgain();
    assert.deepEqual(opened.seen.lines, lines);
  }
});

test("a worker at an origin that is not configured is skipped and logged", inTime, async () => {
  await using home = await startWorker({ otherwise: streamed() });
  await using stranger = await startWorker({ otherwise: streamed() });
  const workers = [{ id: "w1", url: stranger.url }, { id: "w2" }, { id: "w3", url: home.url }];
  const headers = { Authorization: "Bearer secret" };
  await using opened = await listing(home, workers, { origins: [], headers });
  for (let n = 0; n < 4; n++) await resultOf(opened.ask());
  await opened.readAgain();
  assert.deepEqual(
    opened.workers().map(({ name }) => name),
    ["w2", "w3"],
  );
  assert.equal(home.received.length, 4);
  assert.deepEqual([stranger.received.length, stranger.reads.length], [0, 0]);
  assert.deepEqual(opened.seen.lines, [
    `warn workers at ${stranger.url} are skipped: add it to networks.net.origins in pipeline.yaml if it is yours`,
  ]);
});

for (const callback of ["onChoice", "onRead", "onEnd"] as const) {
  test(`a reader that throws in ${callback} ends its own call only`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed() });
    await using opened = await openNetwork(worker.url);
    const asked = ask(opened.offer(), {}, (reader) => ({
      ...reader,
      [callback](...args: Parameters<AnswerReader["onEnd"]>) {
        // If it is the last callback, no other follows.
        if (callback === "onEnd") reader.onEnd(...args);
        throw new Error("a bug of the reader's");
      },
    }));
    assert.equal((await asked).failure, callback === "onEnd" ? undefined : "broken");
    await worker.idle();
    assert.equal((await resultOf(opened.ask())).finishReason, "stop");
    assert.match(opened.seen.lines.join(), /error the reader of an answer threw/);
  });
}

const stream = [
  eventOf(chunkOf({ content: "Hello" })),
  eventOf(chunkOf({ content: " world" })),
  eventOf(chunkOf({}, { finishReason: "stop" })),
].join("");

test("an answer is read with every content coding, streamed and whole", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const document = JSON.stringify({ choices: [{ message: { content: "Hello world" } }] });
  for (const [coding, encode] of [
    ["X-GZIP", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ] as const) {
    const headers = { "content-encoding": coding };
    worker.script(raw(200, headers, [encode(stream)]), raw(200, headers, [encode(document)]));
    for (const isStream of [true, false]) {
      assert.equal((await opened.ask({ streamed: isStream })).text, "Hello world", coding);
    }
  }
  const cut = gzipSync(stream);
  worker.script(raw(200, { "content-encoding": "gzip" }, [cut.subarray(0, cut.length - 9)]));
  assert.equal((await opened.ask()).failure, "broken");
});

test("a reader that pauses an encoded stream stops the worker", inTime, async () => {
  const events = eventOf(chunkOf({ content: "x".repeat(64 * 1024) })).repeat(64);
  const bytes = gzipSync(events + stream);
  const otherwise = raw(200, { "content-encoding": "gzip" }, [bytes]);
  await using worker = await startWorker({ otherwise });
  await using opened = await openNetwork(worker.url);
  let [choices, atRest] = [0, 0];
  const counted = (reader: AnswerReader): AnswerReader => ({
    ...reader,
    onChoice: () => void choices++,
  });
  // The first pause is long, and the others end at once.
  const pauses = async (): Promise<void> => {
    if (atRest === 0) atRest = await whenStable(() => choices);
  };
  await resultOf(ask(opened.offer(), { pauses }, counted));
  assert.ok(atRest > 0 && atRest < 32, `${atRest} events reported`);
  assert.equal(choices, 64 + 3);
});

test("a connection is used again after [DONE], a refusal and a whole answer", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const done = eventOf("[DONE]");
  // A stream that is paused as it ends leaves its connection usable, too.
  for (const pauses of [undefined, () => new Promise<void>(() => {})]) {
    const held = worker.hold();
    const asked = opened.ask(pauses && { pauses });
    const exchange = await held;
    exchange.begin();
    await exchange.push(stream + done);
    assert.equal((await asked).text, "Hello world");
    exchange.end();
    // The network reads the end of the body.
    for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  }
  worker.script(failing(400), whole(), streamed());
  assert.equal((await opened.ask()).failure, "rejected");
  await resultOf(opened.ask({ streamed: false }));
  await resultOf(opened.ask());
  assert.equal(worker.connections, 1);
  // A request that the worker has read is not sent to it again.
  worker.script(cutImmediately, streamed());
  assert.equal((await opened.ask()).failure, "unavailable");
  assert.deepEqual([worker.received.length, worker.connections], [6, 1]);
});

test("the headers of a request do not replace those of the network", inTime, async () => {
  await using worker = await startWorker();
  const headers = { "X-Fixed": "operator", Authorization: "Bearer w", "content-length": "7" };
  await using opened = await openNetwork(`${worker.url}/v1/`, { headers });
  const own = ["x-tenant", "blue", "x-fixed", "step", "content-type", "text/plain"];
  await resultOf(opened.ask({ headers: own, streamed: false }));
  const { path, headers: sent } = worker.received[0] ?? assert.fail();
  assert.equal(path, "/v1/chat/completions");
  assert.deepEqual(
    ["x-tenant", "x-fixed", "content-type", "authorization"].map((name) => sent[name]),
    ["blue", "operator", "application/json", "Bearer w"],
  );
});
