import assert from "node:assert/strict";
import { test } from "node:test";
import { PluginCarryOver } from "../../../src/pipeline/load/plugin-carry-over.ts";
import { quietCloser } from "../harness.ts";

test("a plugin that does not stop does not prevent others from being stopped, and its error is reported", async () => {
  const stopped: string[] = [];
  const plugins = new PluginCarryOver(undefined);
  const first = new Error("first");
  const third = new Error("third");
  const hold = (title: string, stop: () => unknown): Promise<unknown> =>
    plugins.acquire(title, "", undefined, async () => ({ hooks: {}, stop, isService: false }));
  await hold("first", () => {
    throw first;
  });
  await hold("second", () => stopped.push("second"));
  await hold("third", () => Promise.reject(third));
  await hold("fourth", async () => {
    await new Promise((resolve) => setImmediate(resolve));
    stopped.push("fourth");
  });
  await assert.rejects(plugins.release(quietCloser()), (error) => {
    assert(error instanceof AggregateError);
    assert.deepEqual(error.errors, [first, third]);
    return true;
  });
  assert.deepEqual(stopped, ["second", "fourth"]);
});

const starter = (name: string, events: string[]) => async () => {
  events.push(`start ${name}`);
  return { hooks: name, stop: () => events.push(`stop ${name}`), isService: false };
};

test("an unchanged plugin is carried over, a changed one is started; each stops once, after its last user", async () => {
  const events: string[] = [];
  const code = {};
  const first = new PluginCarryOver(undefined);
  await first.acquire("kept", "{}", code, starter("kept", events));
  await first.acquire("old", "{}", code, starter("old", events));
  assert.equal(await first.acquire("kept", "{}", code, starter("again", events)), "kept");
  const second = new PluginCarryOver(first);
  assert.equal(await second.acquire("kept", "{}", code, starter("again", events)), "kept");
  await second.acquire("old", '{"new":true}', code, starter("new", events));
  second.complete();
  await first.release(quietCloser());
  assert.deepEqual(events, ["start kept", "start old", "start new", "stop old"]);
  await second.release(quietCloser());
  assert.deepEqual(events.slice(4).toSorted(), ["stop kept", "stop new"]);
});

test("a plugin whose code has changed is started again with the same options", async () => {
  const events: string[] = [];
  const first = new PluginCarryOver(undefined);
  await first.acquire("plugin", "{}", "code 1", starter("1", events));
  const second = new PluginCarryOver(first);
  assert.equal(await second.acquire("plugin", "{}", "code 2", starter("2", events)), "2");
});
