import assert from "node:assert/strict";
import { test } from "node:test";
import { failureOf, openNetwork, resultOf, type Asked, type Opened } from "./network-harness.ts";
import { costOf, estimated, firstEvent, reported, openTwoWorkers } from "./call-fixtures.ts";
import { failing, silent, usageOf, whole } from "./worker-scripts.ts";
import { chunkOf, eventOf, usageChunkOf } from "./chat-events.ts";
import { startWorker, type Exchange, type Worker } from "./scripted-worker.ts";

const inTime = { timeout: 10_000 };

test("a call times out after two workers were silent before their heads", inTime, async () => {
  await using worker = await startWorker({ otherwise: silent });
  await using opened = await openTwoWorkers(worker, worker);
  const holding = [worker.hold(), worker.hold()];
  const asked = opened.ask();
  for (const held of holding) {
    const exchange = await held;
    opened.seen.clock.advance(9_000);
    assert.equal(worker.inFlight, 1, "not before its time");
    opened.seen.clock.advance(2_000);
    await exchange.left;
  }
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

test("a whole answer has a longer time limit for its head", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  const held = worker.hold();
  const asked = opened.ask({ streamed: false });
  const exchange = await held;
  opened.seen.clock.advance(59_000);
  assert.equal(worker.inFlight, 1);
  opened.seen.clock.advance(2_000);
  await exchange.left;
  assert.deepEqual(await failureOf(asked), { failure: "timedOut", result: undefined });
});

/** Starts a stream and waits for the first token of its answer. */
async function running(
  opened: Opened,
  worker: Worker,
): Promise<{ asked: Asked; exchange: Exchange }> {
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  exchange.begin();
  const arrived = asked.arrived();
  await exchange.push(firstEvent);
  await arrived;
  return { asked, exchange };
}

const end =
  eventOf(chunkOf({}, { finishReason: "stop" })) +
  eventOf(usageChunkOf(usageOf(50, 20))) +
  eventOf("[DONE]");

test(
  "an aborted call is charged for its prompt once a worker has it, and is not retried",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openTwoWorkers(worker, worker);
    const held = worker.hold();
    const asked = opened.ask();
    const exchange = await held;
    const result = asked.call.abort();
    assert.ok(result);
    assert.deepEqual(costOf(result), { ...estimated, completionTokens: 0, costMilliCu: 15 });
    await exchange.left;
    await worker.idle();
    assert.equal(worker.received.length, 1);
    assert.equal(asked.call.abort(), undefined, "and again");
    assert.equal(await asked.call.abortWithUsage(), undefined);
  },
);

test("a call that is aborted at once is not sent", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openNetwork(worker.url);
  assert.equal(opened.ask().call.abort(), undefined);
  assert.equal(await opened.ask().call.abortWithUsage(), undefined);
  await resultOf(opened.ask({ streamed: false }));
  assert.equal(worker.received.length, 1);
});

test(
  "an aborted stream is charged for what arrived, and the request to the worker ends",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    const { asked, exchange } = await running(opened, worker);
    const result = asked.call.abort();
    assert.ok(result);
    assert.deepEqual(costOf(result), estimated);
    await exchange.left;
    assert.equal(asked.call.abort(), undefined, "once");
  },
);

test(
  "after its client has left, a call is charged by the usage that the worker reports within two seconds",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    const { asked, exchange } = await running(opened, worker);
    const { choices, arrivals } = asked;
    asked.call.pause();
    const leaving = asked.call.abortWithUsage();
    opened.seen.clock.advance(1_900);
    await exchange.push(firstEvent + end);
    const result = await leaving;
    assert.ok(result);
    assert.deepEqual(costOf(result), {
      ...reported,
      promptTokens: 50,
      completionTokens: 20,
      costMilliCu: 210,
    });
    assert.deepEqual([choices.length, asked.arrivals], [1, arrivals], "the reader is not called");
    exchange.end();
  },
);

test(
  "without such a report, the part that had arrived is charged, and the request to the worker ends",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    const { asked, exchange } = await running(opened, worker);
    const leaving = asked.call.abortWithUsage();
    await exchange.push(firstEvent.repeat(10));
    assert.equal(worker.inFlight, 1, "it has its two seconds");
    opened.seen.clock.advance(2_000);
    const result = await leaving;
    assert.ok(result);
    assert.deepEqual(costOf(result), estimated);
    await exchange.left;
  },
);

test(
  "a whole answer whose client has left is charged for its prompt, or by the usage if it arrives in time",
  inTime,
  async () => {
    await using worker = await startWorker();
    await using opened = await openNetwork(worker.url);
    for (const answers of [false, true]) {
      const held = worker.hold();
      const asked = opened.ask({ streamed: false });
      const exchange = await held;
      const leaving = asked.call.abortWithUsage();
      if (answers) await whole({ usage: usageOf(50, 20) })(exchange);
      else opened.seen.clock.advance(2_000);
      const result = await leaving;
      assert.ok(result);
      const { promptTokens, completionTokens, estimated: isEstimated } = result.usage;
      assert.deepEqual(
        [promptTokens, completionTokens, isEstimated],
        answers ? [50, 20, false] : [5, 0, true],
      );
    }
  },
);

test("a refusal after the client has left is not charged", inTime, async () => {
  await using worker = await startWorker();
  await using opened = await openTwoWorkers(worker, worker);
  const held = worker.hold();
  const asked = opened.ask();
  const exchange = await held;
  const leaving = asked.call.abortWithUsage();
  await failing(500)(exchange);
  assert.equal(await leaving, undefined);
  assert.equal(worker.received.length, 1, "and nobody else is asked");
});
