import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerReader, NetworkKind } from "sluice-gateway/services";
import { fakeRoute } from "./fake-route.ts";
import { failureOf, model, openNetwork, resultOf } from "./network-harness.ts";
import { error, openTwoWorkers, streamOf } from "./call-fixtures.ts";
import { cutImmediately, failing, raw, streamed, whole } from "./worker-scripts.ts";
import { startWorker, type Script } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };

for (const [status, failure] of [
  [400, "rejected"],
  [413, "rejected"],
  [422, "rejected"],
  [404, "notServed"],
] as const) {
  test(
    `status ${status} of a worker is ${failure}, and the request is not retried`,
    inTime,
    async () => {
      await using first = await startWorker({ otherwise: failing(status) });
      await using second = await startWorker();
      await using opened = await openTwoWorkers(first, second);
      assert.deepEqual(await failureOf(opened.ask()), { failure, result: undefined });
      assert.equal(second.received.length, 0);
      assert.ok(opened.network.ready);
    },
  );
}

test("a failure that is final is not followed by another attempt", inTime, async () => {
  const ended = {
    produced: { chunks: 0, bytes: 0, reasoningChunks: 0, reasoningBytes: 0 },
    reported: undefined,
    finishReason: undefined,
    hasRequest: true,
    pause() {},
    resume() {},
    wrapUp() {},
    abort() {},
  };
  let attempts = 0;
  const kind: NetworkKind = {
    workerProtocols: ["http:"],
    open: () => ({
      routeTo: () => ({
        ...fakeRoute(),
        attempt: (call, worker) => ({
          ...ended,
          worker,
          begin() {
            attempts++;
            call.onError(worker, { cause: { kind: "unusable" }, isFinal: true });
          },
        }),
      }),
      close: () => Promise.resolve(),
    }),
  };
  await using first = await startWorker();
  await using second = await startWorker();
  await using opened = await openTwoWorkers(first, second, {}, kind);
  assert.equal((await failureOf(opened.ask())).failure, "unavailable");
  assert.equal(attempts, 1);
});

const unanswered: readonly [name: string, script: Script][] = [
  ...[401, 403, 429, 500, 502, 503, 599].map((status): [string, Script] => [
    `answers ${status}`,
    failing(status),
  ]),
  ["redirects", raw(307, { location: "/v1/elsewhere" }, [])],
  ["answers 204", (exchange) => (exchange.begin(204), exchange.end())],
  ["cuts the connection before the head", cutImmediately],
  ["cuts the connection after the head", (exchange) => (exchange.begin(), exchange.cut())],
  ["ends without an event", streamOf()],
  ["sends comments only", streamOf(": ping\n\n")],
  ["sends no event stream", streamOf("<html>\n\n</html>\n")],
  ["sends an event that is no JSON", streamOf("data: {\n\n")],
  ["sends an event that is no object", streamOf("data: []\n\n")],
  ["reports an error first", streamOf(`data: ${error}\n\n`)],
  ["answers in one piece although asked to stream", whole()],
  ["sends an endless event", streamOf(`data: ${"x".repeat(1_500_000)}`)],
  ["codes in a way that nobody knows", raw(200, { "content-encoding": "rot13" }, ["data: {}\n\n"])],
  ["codes twice", raw(200, { "content-encoding": "gzip, br" }, ["data: {}\n\n"])],
  ["says gzip and does not mean it", raw(200, { "content-encoding": "gzip" }, ["data: {}\n\n"])],
];

for (const [name, script] of unanswered) {
  test(
    `the answer of a worker that ${name} is not forwarded, and another worker answers`,
    inTime,
    async () => {
      await using first = await startWorker({ otherwise: script });
      await using second = await startWorker({ otherwise: streamed() });
      await using opened = await openTwoWorkers(first, second);
      const asked = opened.ask();
      const result = await resultOf(asked);
      assert.equal(result.worker.id, "w1");
      assert.equal(asked.text, "Hello world");
      assert.deepEqual([first.received.length, second.received.length], [1, 1]);
    },
  );
}

for (const [name, text] of [
  ["no JSON", "<html>"],
  ["an empty body", ""],
  ["another document", "[]"],
  ["no choices", '{"choices":[]}'],
  ["a choice without a message", '{"choices":[{}]}'],
  ["content of another type", '{"choices":[{"message":{"content":[1]}}]}'],
  ["an error", error],
  ["too much", `{"x":"${"y".repeat(17 * 1024 * 1024)}"}`],
]) {
  test(
    `a whole answer that is ${name} is rejected, and every worker is tried`,
    inTime,
    async () => {
      const headers = { "content-type": "application/json" };
      await using worker = await startWorker({ otherwise: raw(200, headers, [text ?? ""]) });
      await using opened = await openTwoWorkers(worker, worker);
      const failed = await failureOf(opened.ask({ streamed: false }));
      assert.deepEqual(failed, { failure: "unavailable", result: undefined });
      assert.equal(worker.received.length, 2);
    },
  );
}

test("a worker that refuses connections is ejected, and another answers", inTime, async () => {
  await using first = await startWorker();
  await using second = await startWorker({ otherwise: streamed() });
  await using opened = await openTwoWorkers(first, second);
  await first.refuse();
  assert.equal((await resultOf(opened.ask())).worker.id, "w1");
  assert.ok(opened.seen.lines.includes("warn a worker was ejected after failures"));
  assert.equal((await resultOf(opened.ask())).worker.id, "w1");
});

test("at most three workers are tried", inTime, async () => {
  await using worker = await startWorker({ otherwise: failing(500) });
  const workers = ["a", "b", "c", "d"].map((id) => ({ id, model: "Test/Model-1" }));
  worker.documents.set("/status", { workers });
  await using opened = await openNetwork(worker.url, { statusUrl: `${worker.url}/status` });
  assert.equal((await failureOf(opened.ask())).failure, "unavailable");
  assert.equal(worker.received.length, 3);
});

test(
  "a worker that refuses the credentials is left out until it accepts them",
  inTime,
  async () => {
    await using worker = await startWorker({ otherwise: failing(401) });
    await using opened = await openNetwork(worker.url);
    for (let n = 0; n < 3; n++) await failureOf(opened.ask());
    const [only] = opened.network.workers;
    const { reason, since, next_try: next } = only?.ejection.absence ?? {};
    const { host } = new URL(worker.url);
    assert.equal(reason, `unauthorized: status 401 (worker_error) at ${host}`);
    assert.equal(Date.parse(String(next)) - Date.parse(String(since)), 2_000);
    // Its list of models needs no credentials, so that list proves nothing.
    const probed = async (count: number): Promise<void> => {
      while (worker.received.length < count) await new Promise(setImmediate);
      await worker.idle();
    };
    opened.seen.clock.advance(2_000);
    await probed(4);
    assert.deepEqual(worker.received.at(-1)?.body, {});
    assert.equal(opened.network.ready, false);
    worker.script(failing(400));
    // The cooldown begins when the answer of the probe has been read.
    while (!opened.network.ready) {
      opened.seen.clock.advance(1_000);
      await new Promise(setImmediate);
    }
  },
);

for (const callback of ["onChoice", "onRead", "onEnd"] as const) {
  test(`a reader that throws in ${callback} ends its own call only`, inTime, async () => {
    await using worker = await startWorker({ otherwise: streamed() });
    await using opened = await openNetwork(worker.url);
    const offer = opened.network.models.get(model);
    assert.ok(offer);
    const failed = Promise.withResolvers<string>();
    const reader: AnswerReader = {
      onChoice() {},
      onRead() {},
      onEnd() {},
      onError: (failure) => failed.resolve(failure),
    };
    reader[callback] = () => {
      // If it is the last callback, no other follows.
      if (callback === "onEnd") failed.resolve("broken");
      throw new Error("a bug of the reader's");
    };
    const body = Buffer.from(JSON.stringify({ model, stream: true }));
    offer.send({ body, streamed: true, promptBytes: 2 }, reader);
    assert.equal(await failed.promise, "broken");
    await worker.idle();
    assert.equal((await resultOf(opened.ask())).finishReason, "stop");
    assert.match(opened.seen.lines.join(), /error the reader of an answer threw/);
  });
}
