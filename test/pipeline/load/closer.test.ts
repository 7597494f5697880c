/** Tests of the state machine that closes parts within limits, with a manual clock. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Closer, ClosingStack } from "../../../src/pipeline/load/closer.ts";
import { PluginCarryOver } from "../../../src/pipeline/load/plugin-carry-over.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import type { Log } from "../../../src/plugin.ts";

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
