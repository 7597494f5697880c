/** Declarations of surfaces about bodies: `normalize`, which changes the body that steps read, and `renderRefusal`. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ExchangeRecord } from "../../../src/pipeline/observe/record.ts";
import { refuse, type SurfaceHooks, type Exchange, type Reply } from "../../../src/plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const surface: SurfaceHooks = {
  body: { bytes: 20, types: ["application/json"] },
  answer: () => refuse("GATEWAY_NOT_FOUND", { message: "no such model" }),
  renderRefusal: ({ status, headers = [], code, refusal }, x) => ({
    status: status === 503 ? 529 : status,
    headers: [...headers, "x-path", x.request.path],
    body: JSON.stringify({ problem: { code, ...refusal } }),
  }),
};

const refusing: TestStep = {
  name: "limit",
  requestHeaders: () =>
    refuse("GATEWAY_RATE_LIMITED", { details: { scope: "key" }, headers: ["x-scope", "key"] }),
};

const json = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };

test("a refusal of a step gets the shape of the surface and keeps its code and headers", async () => {
  const records: ExchangeRecord[] = [];
  await using served = await serve([{ path: "/a", steps: [refusing], surface }], {
    observers: [(record) => void records.push(record)],
  });
  const { status, headers, body } = await ask(served, "/a", json);
  assert.deepEqual(JSON.parse(body), {
    problem: {
      code: "GATEWAY_RATE_LIMITED",
      message: "too many requests",
      details: { scope: "key" },
    },
  });
  assert.deepEqual(
    [status, headers["retry-after"], headers["x-scope"], headers["x-path"]],
    [429, "1", "key", "/a"],
  );
  while (records.length === 0) await new Promise(setImmediate);
  assert.equal(records[0]?.code, "GATEWAY_RATE_LIMITED");
});

const cases = [
  { title: "a body that is too large", body: `"${"a".repeat(30)}"`, status: 413 },
  { title: "another media type", headers: { "content-type": "text/plain" }, status: 415 },
  { title: "a refusal of the surface itself", status: 404 },
] as const;

for (const { title, status, ...options } of cases) {
  test(`${title} gets the shape of the surface`, async () => {
    await using served = await serve([{ path: "/a", surface }]);
    const answer = await ask(served, "/a", { ...json, ...options });
    assert.equal(answer.status, status);
    const { problem } = JSON.parse(answer.body) as { problem: { code: string } };
    assert.match(problem.code, /^GATEWAY_/);
  });
}

test("a refusal that replaces the answer at its end, and a failure, get the shape of the surface", async () => {
  const late: TestStep = { name: "late", responseEnd: () => refuse("GATEWAY_SERVICE_UNAVAILABLE") };
  const broken: TestStep = {
    name: "broken",
    requestHeaders() {
      throw new Error("broken");
    },
  };
  await using served = await serve([
    { path: "/late", steps: [late], surface },
    { path: "/broken", steps: [broken], surface },
  ]);
  const unavailable = await ask(served, "/late", json);
  assert.equal(unavailable.status, 529);
  assert.match(unavailable.body, /"problem":\{"code":"GATEWAY_SERVICE_UNAVAILABLE"/);
  const failed = await ask(served, "/broken", json);
  assert.equal(failed.status, 500);
  assert.match(failed.body, /"problem":\{"code":"GATEWAY_INTERNAL_ERROR"/);
});

test("replies of steps that are not refusals stay as they are", async () => {
  const replay: TestStep = { name: "replay", requestHeaders: () => ({ status: 200, body: "old" }) };
  await using served = await serve([{ path: "/a", steps: [replay], surface }]);
  assert.equal((await ask(served, "/a", json)).body, "old");
});

test("a surface that cannot render a refusal gets a 500 in the envelope", async () => {
  const throwing: SurfaceHooks = {
    ...surface,
    renderRefusal() {
      throw new Error("broken");
    },
  };
  await using served = await serve([{ path: "/a", steps: [refusing], surface: throwing }]);
  const { status, body } = await ask(served, "/a", json);
  assert.equal(status, 500);
  assert.deepEqual(JSON.parse(body), {
    error: "internal error",
    error_code: "GATEWAY_INTERNAL_ERROR",
  });
  assert.match(served.errors[0] ?? "", /a plugin failed .*"plugin":"surface-0"/);
});

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
  const normalizing = surfaceWith(lower);
  await using served = await serve([{ path: "/x", steps: [step], surface: normalizing }]);
  assert.equal((await ask(served, "/x", post('"HIDDEN"'))).body, '"hidden"');
  assert.equal((await ask(served, "/x", post(' "plain" '))).body, ' "plain" ');
  assert.equal((await ask(served, "/x", post("no JSON"))).body, "no JSON");
  assert.deepEqual(seen, ['"hidden"', ' "plain" ', "no JSON"]);
});

test("a surface that fails to normalize a body fails only this request", async () => {
  const normalizing = surfaceWith(() => {
    throw new Error("broken");
  });
  await using served = await serve([{ path: "/x", surface: normalizing }]);
  assert.equal((await ask(served, "/x", post("1"))).status, 500);
  assert.match(served.errors.join(), /a plugin failed .*"plugin":"surface-0"/);
});
