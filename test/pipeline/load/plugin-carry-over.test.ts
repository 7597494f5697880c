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
