import assert from "node:assert/strict";
import { test } from "node:test";
import { HandOver } from "../../../src/pipeline/load/hand-over.ts";
import { quietCloser } from "../harness.ts";

test("a part that does not stop keeps no other from being stopped, and what it threw is reported", async () => {
  const stopped: string[] = [];
  const parts = new HandOver(undefined);
  const first = new Error("first");
  const third = new Error("third");
  const hold = (key: string, stop: () => unknown): unknown =>
    parts.acquireNow(key, undefined, () => ({ value: key, stop }));
  hold("first", () => {
    throw first;
  });
  hold("second", () => stopped.push("second"));
  hold("third", () => Promise.reject(third));
  hold("fourth", async () => {
    await new Promise((resolve) => setImmediate(resolve));
    stopped.push("fourth");
  });
  await assert.rejects(parts.release(quietCloser()), (error) => {
    assert(error instanceof AggregateError);
    assert.deepEqual(error.errors, [first, third]);
    return true;
  });
  assert.deepEqual(stopped, ["second", "fourth"]);
});
