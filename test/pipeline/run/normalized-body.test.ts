/** `normalize` of a surface: steps read the body in the form that the surface reads. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Exchange, Reply } from "../../../src/plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const post = (body: string) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body,
});

function surfaceWith(normalize: (value: unknown) => unknown) {
  return {
    body: { bytes: 1_000, types: ["application/json"], normalize },
    answer: (x: Exchange): Reply => ({ status: 200, body: x.body?.toString() ?? "" }),
  };
}

test("a step gets the body that the surface has normalized, and other bodies keep their bytes", async () => {
  const seen: string[] = [];
  const step: TestStep = {
    name: "reads",
    requestBody: (_, body) => void seen.push(body.toString()),
  };
  const lower = (value: unknown): unknown =>
    typeof value === "string" && value !== value.toLowerCase() ? value.toLowerCase() : value;
  const surface = surfaceWith(lower);
  await using served = await serve([{ path: "/x", steps: [step], surface }]);
  assert.equal((await ask(served, "/x", post('"HIDDEN"'))).body, '"hidden"');
  assert.equal((await ask(served, "/x", post(' "plain" '))).body, ' "plain" ');
  assert.equal((await ask(served, "/x", post("no JSON"))).body, "no JSON");
  assert.deepEqual(seen, ['"hidden"', ' "plain" ', "no JSON"]);
});

test("a surface that fails to normalize a body fails only this request", async () => {
  const surface = surfaceWith(() => {
    throw new Error("broken");
  });
  await using served = await serve([{ path: "/x", surface }]);
  assert.equal((await ask(served, "/x", post("1"))).status, 500);
  assert.match(served.errors.join(), /a plugin failed .*"plugin":"surface-0"/);
});
