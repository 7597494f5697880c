import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, serve } from "../harness.ts";

test("an observer that throws is logged, and the others are called", async () => {
  const seen: string[] = [];
  const surface = { answer: () => ({ status: 200, body: "fine" }) };
  const failing = (): never => {
    throw new Error("a bug");
  };
  await using served = await serve([{ path: "/x", surface }], {
    observers: [failing, ({ route, outcome }) => seen.push(`${route.path} ${outcome}`)],
  });
  assert.equal((await ask(served, "/x")).body, "fine");
  while (seen.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(seen, ["/x complete"]);
  assert.match(served.errors.join(), /an observer of exchanges failed/);
});
