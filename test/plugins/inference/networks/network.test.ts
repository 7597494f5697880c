import assert from "node:assert/strict";
import { test } from "node:test";
import { createCatalogue } from "../../../../plugins/inference/networks/catalogue.ts";
import { failureOf, model, openNetwork, resultOf, type Opened } from "./network-harness.ts";
import { silent, streamed } from "./worker-scripts.ts";
import { startWorker, type Worker } from "./scripted-worker.ts";
import { chunkOf, eventOf } from "./chat-events.ts";

const inTime = { timeout: 10_000 };

/** Opens a network whose status lists these workers. */
async function listing(
  at: Worker,
  workers: readonly ({ readonly url?: string } & Readonly<Record<string, unknown>>)[],
  over: object = {},
): Promise<Opened> {
  list(at, workers);
  const origins = workers.flatMap(({ url }) => (url === undefined ? [] : [new URL(url).origin]));
  return openNetwork(at.url, { statusUrl: `${at.url}/status`, origins, ...over });
}

function list(at: Worker, workers: readonly object[], more: object = {}): void {
  const listed = workers.map((worker) => ({ model, ...worker }));
  at.documents.set("/status", { price_per_token_nano: "12", workers: listed, ...more });
}

test(
  "without a status document, every listed model counts as a worker at the configured price",
  inTime,
  async () => {
    await using worker = await startWorker({ models: ["b", "a"] });
    await using opened = await openNetwork(worker.url);
    const entries = [...opened.network.models.values()].map(({ entry }) => entry);
    assert.deepEqual(
      entries.map(({ modelId }) => modelId),
      ["a", "b"],
    );
    assert.deepEqual(entries[0], {
      network: "net",
      modelId: "a",
      ownedBy: "net",
      createdAt: opened.seen.clock.now(),
      activeWorkers: 1,
      promptPriceCUMilli: 3,
      completionPriceCUMilli: 3,
      cachedPriceCUMilli: 3,
      coefficients: { base: 1000, standard: 1000, priority: 1000 },
      evidence: "none",
    });
  },
);

test(
  "draining workers are skipped and busy ones count; the bands are lowest, median and highest coefficient",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await listing(worker, [
      { id: "w1", coefficient: 3000 },
      { id: "w2", coefficient: 500, state: "busy" },
      { id: "w3", coefficient: 1001 },
      { id: "w4", coefficient: 2000 },
      { id: "w5", coefficient: 1, state: "draining" },
      { id: "w6", model: "drained", state: "draining" },
    ]);
    const offer = opened.network.models.get(model);
    assert.equal(offer?.activeWorkers, 4);
    assert.deepEqual(offer.entry.coefficients, { base: 500, standard: 1501, priority: 3000 });
    // 12 × 1.501 × 0.25 = 4.503 at the median, 9 at the most.
    assert.equal(offer.entry.promptPriceCUMilli, 5);
    assert.equal(offer.maxMilliCu(900, 100), 9_000);
    const drained = opened.network.models.get("drained");
    assert.equal(drained?.activeWorkers, 0);
    assert.equal(drained.entry.coefficients, undefined);
    assert.equal(drained.entry.promptPriceCUMilli, 3);
    const asked = opened.ask({ modelId: "drained" });
    assert.equal((await failureOf(asked)).failure, "unavailable");
    assert.equal(worker.received.length, 0);
  },
);

test("an answer is charged at the coefficient of its worker", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  await using opened = await listing(worker, [{ id: "w1", coefficient: 1500 }]);
  const { costMilliCu, worker: served } = await resultOf(opened.ask());
  // 7 tokens × 12 × 1.5 × 0.25 = 31.5.
  assert.equal(costMilliCu, 32);
  assert.equal(served.pricing.coefficient, 1500);
});

test("price and rate are those at the time when the worker was chosen", inTime, async () => {
  await using worker = await startWorker();
  worker.documents.set("/rate", { usd: "0.25" });
  const rate = {
    kind: "polled",
    url: `${worker.url}/rate`,
    pointer: "/usd",
    everyMs: 1_500_000,
    maxAgeMs: 86_400_000,
  } as const;
  await using opened = await listing(worker, [{ id: "w1" }], { rate, idleMs: 86_400_000 });
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  const chosenAt = new Date(opened.seen.clock.now()).toISOString();
  list(worker, [{ id: "w1", coefficient: 5000 }], { price_per_token_nano: "1000" });
  worker.documents.set("/rate", { usd: "9" });
  // The status, and then the rate.
  await opened.readAgain();
  await opened.readAgain();
  assert.equal(opened.network.models.get(model)?.entry.promptPriceCUMilli, 45_000);
  await streamed()(exchange);
  const { costMilliCu, worker: served } = await resultOf(asked);
  assert.equal(costMilliCu, 21);
  assert.deepEqual(served.pricing, {
    network: "net",
    coefficient: 1000,
    pricePerTokenNano: "12",
    tokenUsdRate: "0.25",
    asOf: chosenAt,
  });
});

test(
  "a worker that is removed from the list completes its requests and gets no more",
  inTime,
  async () => {
    await using home = await startWorker();
    await using old = await startWorker();
    await using young = await startWorker({ otherwise: streamed() });
    const over = { idleMs: 86_400_000, origins: [old.url, young.url] };
    await using opened = await listing(home, [{ id: "w1", url: old.url }], over);
    const held = old.hold();
    const asked = opened.ask();
    const exchange = await held;
    list(home, [{ id: "w1", url: young.url }]);
    await opened.readAgain();
    assert.equal((await resultOf(opened.ask())).worker.id, "w1");
    assert.equal(young.received.length, 1);
    await streamed()(exchange);
    assert.equal((await resultOf(asked)).finishReason, "stop");
    assert.equal(old.received.length, 1);
  },
);

test("a retry uses the current workers", inTime, async () => {
  await using home = await startWorker();
  await using old = await startWorker();
  await using young = await startWorker({ otherwise: streamed() });
  const before = [
    { id: "w1", url: old.url },
    { id: "w2", url: old.url },
  ];
  const over = { idleMs: 86_400_000, origins: [old.url, young.url] };
  await using opened = await listing(home, before, over);
  const held = old.hold();
  const asked = opened.ask();
  const exchange = await held;
  list(home, [{ id: "w3", url: young.url }]);
  await opened.readAgain();
  exchange.cut();
  assert.equal((await resultOf(asked)).worker.id, "w3");
  assert.equal(old.received.length, 1);
});

test("nothing is kept of a model that is not listed any more", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, [{ id: "w1" }]);
  const createdAt = (): number | undefined => opened.network.models.get(model)?.entry.createdAt;
  const first = createdAt();
  list(worker, []);
  await opened.readAgain();
  list(worker, [{ id: "w1" }]);
  await opened.readAgain();
  assert.ok(Number(createdAt()) > Number(first));
});

test("a call is unavailable if its model has been removed meanwhile", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, [{ id: "w1" }, { id: "w2" }], { idleMs: 86_400_000 });
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  list(worker, []);
  await opened.readAgain();
  exchange.cut();
  assert.equal((await failureOf(asked)).failure, "unavailable");
});

test("requests are distributed by the number of requests in flight", inTime, async () => {
  await using one = await startWorker({ otherwise: silent });
  await using other = await startWorker({ otherwise: silent });
  await using opened = await listing(one, [
    { id: "w1", url: one.url },
    { id: "w2", url: other.url },
  ]);
  const holding = [one, one, one, other, other, other].map((worker) => worker.hold());
  const asked = Array.from({ length: 6 }, () => opened.ask());
  await Promise.all(holding);
  assert.deepEqual([one.inFlight, other.inFlight], [3, 3]);
  for (const { call } of asked) call.abort();
  await Promise.all([one.idle(), other.idle()]);
});

test(
  "the last price is used while the status has none, and the configured one before the first reading",
  inTime,
  async () => {
    await using worker = await startWorker();
    worker.documents.set("/status", { workers: [{ id: "w1", model }] });
    const statusUrl = `${worker.url}/status`;
    await using opened = await openNetwork(worker.url, {
      statusUrl,
      prices: { pricePerTokenNano: "4" },
    });
    const shown = (): unknown => opened.network.models.get(model)?.entry.promptPriceCUMilli;
    assert.equal(shown(), 1);
    list(worker, [{ id: "w1" }]);
    await opened.readAgain();
    assert.equal(shown(), 3);
    worker.documents.set("/status", { workers: [{ id: "w1", model }] });
    await opened.readAgain();
    assert.equal(shown(), 3);
    worker.documents.set("/status", "garbage");
    await opened.readAgain();
    assert.equal(opened.network.models.get(model)?.activeWorkers, 1);
  },
);

for (const url of [
  "http://v1",
  "http://127.0.0.1:1/v1/",
  "http://127.0.0.1:1//v1",
  "https://v1/v1",
]) {
  test(`a worker at ${url} is harmless`, inTime, async () => {
    await using worker = await startWorker();
    await using opened = await listing(worker, [{ id: "w1", url, model: "other" }, { id: "w2" }]);
    assert.deepEqual([...opened.network.models.keys()].toSorted(), [model, "other"].toSorted());
  });
}

test("the path of a worker's URL precedes /v1", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  const at = `${worker.url}/deep/er/v1/`;
  await using opened = await listing(worker, [{ id: "w1", url: at }]);
  await resultOf(opened.ask());
  assert.equal(worker.received[0]?.path, "/deep/er/v1/chat/completions");
});

test(
  "overrides hide models, list models without workers, set owners and coefficients",
  inTime,
  async () => {
    await using worker = await startWorker({ otherwise: streamed() });
    await using opened = await listing(worker, [{ id: "w1" }, { id: "w2", model: "hidden" }]);
    const { models } = opened.network;
    const plain = { enabled: true, ownedBy: undefined, priceCoefficient: undefined };
    opened.override(
      { ...plain, id: "hidden", enabled: false },
      { ...plain, id: "announced", priceCoefficient: 2000 },
      { ...plain, id: model, ownedBy: "Somebody", priceCoefficient: 4000 },
    );
    const changed = opened.network.models;
    assert.deepEqual([...changed.keys()].toSorted(), ["announced", model].toSorted());
    assert.equal(changed.get("announced")?.activeWorkers, 0);
    assert.equal(changed.get("announced")?.entry.promptPriceCUMilli, 6);
    assert.equal(changed.get(model)?.entry.ownedBy, "Somebody");
    const { costMilliCu, worker: served } = await resultOf(opened.ask());
    assert.deepEqual([costMilliCu, served.pricing.coefficient], [84, 4000]);
    assert.equal(models.get(model)?.entry.createdAt, changed.get(model)?.entry.createdAt);
    opened.override();
    assert.deepEqual([...opened.network.models.keys()], [...models.keys()]);
  },
);

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
  assert.equal(opened.network.models.get(model)?.maxMilliCu(10, 5), 2 * 0.25 * 15 * 12);
  const own = { prompt: "4", cached: "0", completion: "8", reasoning: "0" };
  opened.override({ ...plain, prices: { pricePerTokenNano: "8", classes: own } });
  assert.equal(await cost(), 2 * 0.25 * (5 * 4 + 2 * 8));
  assert.equal(opened.network.models.get(model)?.maxMilliCu(10, 5), 2 * 0.25 * (10 * 4 + 5 * 8));
});

test("the list with other overrides is available before they are stored", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  await using opened = await listing(worker, [{ id: "w1" }, { id: "w2", model: "hidden" }]);
  const plain = { enabled: true, ownedBy: undefined, priceCoefficient: undefined };
  const wanted = [
    { ...plain, id: "hidden", enabled: false },
    { ...plain, id: "announced", ownedBy: "Somebody" },
  ];
  const before = [...opened.network.models.values()].map(({ entry }) => entry);
  const seen = opened.network.entriesWith(new Map(wanted.map((one) => [one.id, one])));
  const listed = (): object[] => [...opened.network.models.values()].map(({ entry }) => entry);
  assert.deepEqual(listed(), before);
  opened.override(...wanted);
  assert.deepEqual(seen, listed());
  assert.notDeepEqual(seen, before);
});

test("an ejected worker is probed for its models and readmitted", inTime, async () => {
  await using worker = await startWorker({ otherwise: streamed() });
  await using opened = await openNetwork(worker.url, { headers: { authorization: "Bearer w" } });
  await worker.refuse();
  assert.equal((await failureOf(opened.ask())).failure, "unavailable");
  assert.equal(opened.network.ready, false);
  await worker.accept();
  const isBack = until(() => opened.network.ready);
  opened.seen.clock.advance(2_000);
  await isBack;
  assert.deepEqual(worker.reads, ["/v1/models", "/v1/models"]);
  assert.ok(opened.seen.lines.includes("info a worker is available again"));
});

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setImmediate(resolve));
}

test("a silent worker does not delay the close of an idle network", inTime, async () => {
  await using worker = await startWorker();
  const opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  exchange.begin();
  const arrived = asked.arrived();
  await exchange.push(eventOf(chunkOf({ content: "a" })));
  await arrived;
  asked.call.abort();
  await opened.network.close();
  await exchange.left;
});

test(
  "the first of two networks with an active worker serves, unless the path names one",
  inTime,
  async () => {
    await using one = await startWorker();
    await using other = await startWorker();
    await using first = await listing(one, [{ id: "w1", state: "draining" }], { name: "first" });
    await using second = await listing(other, [{ id: "w2" }, { id: "w3", model: "own" }], {
      name: "second",
    });
    const networks = createCatalogue({
      list: [first.network, second.network],
      store: () => Promise.resolve(true),
    });
    assert.deepEqual(networks.names, ["first", "second"]);
    assert.deepEqual(
      networks.models().map(({ network, modelId }) => `${network} ${modelId}`),
      [`first ${model}`, `second ${model}`, "second own"],
    );
    assert.deepEqual(networks.models("third"), []);
    assert.equal(networks.find(model), second.network.models.get(model));
    assert.equal(networks.find(model, "first"), first.network.models.get(model));
    assert.equal(networks.find("own", "first"), undefined);
    assert.equal(networks.find("own")?.activeWorkers, 1);
    assert.equal(networks.find("none"), undefined);
    assert.equal(networks.find(model, "third"), undefined);
    list(one, [{ id: "w1" }]);
    await first.readAgain();
    assert.equal(networks.find(model), first.network.models.get(model));
  },
);

test("a network is unread until its status has been read once", inTime, async () => {
  await using worker = await startWorker();
  worker.documents.set("/v1/models", 503);
  await using down = await openNetwork(worker.url, { name: "down" });
  await using up = await listing(worker, [], { name: "up" });
  const networks = createCatalogue({
    list: [up.network, down.network],
    store: () => Promise.resolve(true),
  });
  assert.deepEqual(
    [networks.unread(), networks.unread("down"), networks.unread("up"), networks.unread("other")],
    [true, true, false, false],
  );
  assert.equal(down.network.ready, false);
  worker.documents.set("/v1/models", { data: [{ id: model }] });
  await down.readAgain();
  assert.equal(networks.unread(), false);
  worker.documents.set("/v1/models", 503);
  await down.readAgain();
  assert.equal(networks.unread(), false, "what it said last holds");
  assert.ok(down.network.ready);
});

test("a network that lists no workers any more is logged once", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await listing(worker, []);
  const line = "warn the network lists no usable worker, so it has no models";
  assert.deepEqual(opened.seen.lines, [line]);
  await opened.readAgain();
  assert.deepEqual(opened.seen.lines, [line]);
  list(worker, [{ id: "w1" }]);
  await opened.readAgain();
  list(worker, []);
  await opened.readAgain();
  assert.deepEqual(opened.seen.lines, [line, line]);
});

test(
  "a worker at an origin that the configuration does not name is skipped, and logged once",
  inTime,
  async () => {
    await using home = await startWorker({ otherwise: streamed() });
    await using stranger = await startWorker({ otherwise: streamed() });
    const workers = [{ id: "w1", url: stranger.url }, { id: "w2" }, { id: "w3", url: home.url }];
    await using opened = await listing(home, workers, {
      origins: [],
      headers: { Authorization: "Bearer secret" },
    });
    for (let n = 0; n < 4; n++) await resultOf(opened.ask());
    await opened.readAgain();
    assert.deepEqual(
      [...opened.network.workers].map(({ id }) => id),
      ["w2", "w3"],
    );
    assert.equal(home.received.length, 4);
    assert.deepEqual([stranger.received.length, stranger.reads.length], [0, 0]);
    assert.deepEqual(opened.seen.lines, [
      `warn workers at ${stranger.url} are skipped: add it to networks.net.origins in pipeline.yaml if it is yours`,
    ]);
  },
);

test("a price too high for any reservation makes the status document invalid", inTime, async () => {
  await using worker = await startWorker();
  worker.documents.set("/status", { price_per_token_nano: "100000000000", workers: [] });
  await using opened = await openNetwork(worker.url, { statusUrl: `${worker.url}/status` });
  assert.equal(opened.network.hasStatus, false);
  assert.match(opened.seen.lines.join(), /warn a polled document could not be read/);
});
