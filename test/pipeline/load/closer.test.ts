/** Tests of state machines with a manual clock: closing parts within limits, parts that services keep, waiting for services. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Closer, ClosingStack } from "../../../src/pipeline/load/closer.ts";
import { awaitBackends } from "../../../src/pipeline/load/generation.ts";
import { KeptParts } from "../../../src/pipeline/load/kept-parts.ts";
import { PluginCarryOver } from "../../../src/pipeline/load/plugin-carry-over.ts";
import type { Log } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { quietCloser } from "../harness.ts";

function closing() {
  const clock = manualClock();
  const lines: string[] = [];
  const error: Log["error"] = (fields) => void lines.push(JSON.stringify(fields));
  const log: Log = { debug() {}, info() {}, warn() {}, error, child: () => log };
  return { clock, lines, closer: new Closer({ clock, log }) };
}

const hangs = (): Promise<never> => new Promise(() => {});
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("parts close in reverse order; parts that hang are logged and abandoned, later ones sooner", async () => {
  const { clock, lines, closer } = closing();
  const stack = new ClosingStack(closer);
  let closed = 0;
  stack.add("first", () => closed++);
  stack.add("second", hangs);
  stack.add("third", hangs);
  const done = stack.disposeAsync();
  await turn();
  clock.advance(3_999);
  await turn();
  assert.deepEqual(lines, []);
  clock.advance(1);
  await turn();
  assert.deepEqual(lines, ['{"part":"third"}']);
  clock.advance(1_000);
  await done;
  assert.deepEqual(lines, ['{"part":"third"}', '{"part":"second"}']);
  assert.equal(closed, 1);
});

test("an exception of a part is passed on, and a later one is ignored", async () => {
  const { clock, closer } = closing();
  const bug = new Error("a bug");
  await assert.rejects(
    closer.close("throws", () => {
      throw bug;
    }),
    bug,
  );
  const late = Promise.withResolvers<void>();
  const done = closer.close("rejects late", () => late.promise);
  clock.advance(4_000);
  await done;
  late.reject(bug);
  await turn();
});

test("a plugin that does not stop is named without its options, and the others are stopped", async () => {
  const { clock, lines, closer } = closing();
  const plugins = new PluginCarryOver(undefined);
  let stopped = 0;
  const hold = (title: string, stop: () => unknown): Promise<unknown> =>
    plugins.acquire(title, '{"password":"secret"}', undefined, async () => ({
      hooks: {},
      stop,
      isService: false,
    }));
  await hold("plugin enforce acme", hangs);
  await hold("other", () => stopped++);
  const done = plugins.release(closer);
  clock.advance(4_000);
  await done;
  assert.deepEqual(lines, ['{"part":"plugin enforce acme"}']);
  assert.equal(stopped, 1);
});

/** Closes `parts`, and moves the time forward until every limit of the stop has passed. Returns the logged parts. */
async function closeHanging(parts: KeptParts): Promise<string[]> {
  const { clock, lines, closer } = closing();
  let isClosed = false;
  const closed = parts.close(closer).finally(() => (isClosed = true));
  while (!isClosed) {
    await turn();
    clock.advance(1_000);
  }
  await closed;
  return lines;
}

test("a part is closed when its last holder releases it", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const service = { name: "store" };
  const first = parts.holder(service);
  const second = parts.holder(service);
  const keep = (holder: typeof first): object =>
    holder.keep(
      "database",
      () => ({}),
      () => void closed.push("database"),
    );
  assert.equal(keep(first), keep(second));
  await first.release();
  assert.deepEqual(closed, []);
  await second.release();
  assert.deepEqual(closed, ["database"]);
});

test("a stop closes parts that are still held, the last opened first, and each one once", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  for (const name of ["journal", "export"]) {
    holder.keep(
      name,
      () => name,
      (part) => void closed.push(part),
    );
  }
  await parts.close(quietCloser());
  await holder.release();
  assert.deepEqual(closed, ["export", "journal"]);
});

test("a stop waits for parts that are being closed", async () => {
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  const { promise, resolve } = Promise.withResolvers<void>();
  let isClosed = false;
  holder.keep(
    "journal",
    () => 0,
    async () => {
      await promise;
      isClosed = true;
    },
  );
  void holder.release();
  const stopped = parts.close(quietCloser());
  resolve();
  await stopped;
  assert.equal(isClosed, true);
});

test("a stop closes the parts that a release has not reached, because an earlier part does not end", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  const holder = parts.holder({ name: "store" });
  holder.keep(
    "journal",
    () => "journal",
    (part) => void closed.push(part),
  );
  const stuck = Promise.withResolvers<void>();
  holder.keep(
    "export",
    () => 0,
    () => stuck.promise,
  );
  const released = holder.release();
  const late = await closeHanging(parts);
  assert.deepEqual(closed, ["journal"]);
  assert.deepEqual(late, ['{"part":"service store: export"}']);
  stuck.resolve();
  await released;
  assert.deepEqual(closed, ["journal"], "the release does not close it a second time");
});

test("a stop closes the parts after one that throws, and reports the error", async () => {
  const closed: string[] = [];
  const parts = new KeptParts();
  for (const name of ["first", "second"]) {
    parts.holder({ name }).keep(
      "database",
      () => name,
      (part) => {
        closed.push(part);
        throw new Error(`${part} failed`);
      },
    );
  }
  await assert.rejects(parts.close(quietCloser()), /second failed; Error: first failed/);
  assert.deepEqual(closed, ["second", "first"]);
});

function watched(promise: Promise<void>): { done: boolean } {
  const state = { done: false };
  void promise.then(() => (state.done = true));
  return state;
}

test("a generation waits until all its services know whether they can serve", async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const initialized = [first.promise, undefined, second.promise];
  const waiting = watched(awaitBackends(initialized, manualClock()));
  first.resolve();
  await turn();
  assert.equal(waiting.done, false);
  second.resolve();
  await turn();
  assert.equal(waiting.done, true);
});

test("a generation waits for 2 s for a service that does not know", async () => {
  const clock = manualClock();
  const waiting = watched(awaitBackends([hangs()], clock));
  clock.advance(1_999);
  await turn();
  assert.equal(waiting.done, false);
  clock.advance(1);
  await turn();
  assert.equal(waiting.done, true);
});

test("a generation without such services does not wait", async () => {
  const waiting = watched(awaitBackends([undefined], manualClock()));
  await turn();
  assert.equal(waiting.done, true);
});
