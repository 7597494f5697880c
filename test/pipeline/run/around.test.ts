/** Steps that wrap the surface. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { refuse, type Reply } from "../../../src/plugin.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const hello = (): Reply => ({ status: 200, body: "hello" });
const conflict = refuse("GATEWAY_CONFLICT");

const around = (name: string, seen: string[], more: Partial<TestStep> = {}): TestStep => ({
  name,
  around(_, surface) {
    seen.push(`${name} begins`);
    const reply = surface.answer();
    seen.push(`${name} ends`);
    return reply;
  },
  ...more,
});

test("wraps the surface in the order of the list, and runs nothing between", async () => {
  const seen: string[] = [];
  const surface = { answer: () => (seen.push("surface"), hello()) };
  const up: TestStep = { name: "up", responseHeaders: () => void seen.push("up") };
  const steps = [up, around("a", seen), around("b", seen)];
  await using served = await serve([{ path: "/x", steps, surface }]);
  assert.equal((await ask(served, "/x")).body, "hello");
  assert.deepEqual(seen, ["a begins", "b begins", "surface", "b ends", "a ends", "up"]);
});

test("runs after all other hooks of the way down", async () => {
  const seen: string[] = [];
  const below: TestStep = {
    name: "below",
    requestHeaders: () => void seen.push("headers"),
    requestBody: async (_, body) => void seen.push(String(body)),
  };
  const steps = [around("a", seen), below];
  await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
  await ask(served, "/x", { method: "POST", body: "body" });
  assert.deepEqual(seen, ["headers", "body", "a begins", "a ends"]);
});

for (const late of [false, true]) {
  const how = late ? "later" : "at once";

  test(`a step's own reply, ${how}, is sent, and the surface does not run`, async () => {
    const froms: string[] = [];
    const steps: TestStep[] = [
      {
        name: "a",
        around: () => (late ? Promise.resolve(conflict) : conflict),
        responseHeaders: (_, head) => void froms.push(head.from),
        settled: (_, outcome) => void froms.push(outcome),
      },
    ];
    const surface = { answer: () => assert.fail("it was asked") };
    await using served = await serve([{ path: "/x", steps, surface }]);
    assert.equal((await ask(served, "/x")).status, 409);
    assert.deepEqual(froms, ["step", "replied"]);
  });

  test(`a reply in place of the surface's, ${how}, also counts as the step's`, async () => {
    const froms: string[] = [];
    const steps: TestStep[] = [
      {
        name: "a",
        around(_, surface) {
          const reply = surface.answer();
          return late ? Promise.resolve(reply).then(() => conflict) : conflict;
        },
        responseHeaders: (_, head) => void froms.push(head.from),
      },
    ];
    await using served = await serve([{ path: "/x", steps, surface: { answer: hello } }]);
    assert.equal((await ask(served, "/x")).status, 409);
    assert.deepEqual(froms, ["step"]);
  });
}

test("shows the step whether the surface is atomic", async () => {
  const seen: boolean[] = [];
  const step: TestStep = {
    name: "a",
    around(_, surface) {
      seen.push(surface.atomic);
      return surface.answer();
    },
  };
  const [steps, answer] = [[step], hello];
  await using served = await serve([
    { path: "/a", steps, surface: { atomic: true, answer } },
    { path: "/b", steps, surface: { answer } },
  ]);
  await ask(served, "/a");
  await ask(served, "/b");
  assert.deepEqual(seen, [true, false]);
});

const shadows: Readonly<Record<string, NonNullable<TestStep["around"]>>> = {
  "replies instead": () => conflict,
  "replies instead, later": () => Promise.resolve(conflict),
  "replies in the surface's place": (_, surface) => (surface.answer(), conflict),
  "throws before it asks": () => {
    throw new Error("broken");
  },
  "throws after it has asked": async (_, surface) => {
    await surface.answer();
    throw new Error("broken");
  },
  "does as it should": (_, surface) => surface.answer(),
  "never says anything": () => undefined,
};

for (const [what, hook] of Object.entries(shadows)) {
  test(`in shadow mode a step that ${what} changes nothing`, async () => {
    for (const answer of [hello, async () => hello()]) {
      let asked = 0;
      const steps: TestStep[] = [{ name: "a", mode: "shadow", around: hook }];
      const surface = { answer: () => (asked++, answer()) };
      await using served = await serve([{ path: "/x", steps, surface }]);
      const { status, body } = await ask(served, "/x");
      assert.deepEqual([status, body, asked], [200, "hello", 1]);
    }
  });
}

test("handles the rejection of a surface that fails after the step has replied", async () => {
  const failing = Promise.withResolvers<Reply>();
  const step: TestStep = {
    name: "a",
    // The step does not wait for the surface.
    around: (_, surface) => (void surface.answer(), conflict),
  };
  await using served = await serve([
    { path: "/x", steps: [step], surface: { answer: () => failing.promise } },
  ]);
  assert.equal((await ask(served, "/x")).status, 409);
  failing.reject(new Error("broken"));
  assert.equal((await ask(served, "/x")).status, 409);
});

test("answers 500 for a failure of the surface in shadow mode, too", async () => {
  const steps: TestStep[] = [
    { name: "a", mode: "shadow", around: (_, surface) => surface.answer() },
  ];
  const broken = (): Reply => {
    throw new Error("broken");
  };
  for (const answer of [broken, async () => broken()]) {
    await using served = await serve([{ path: "/x", steps, surface: { answer } }]);
    assert.equal((await ask(served, "/x")).status, 500);
  }
});

test("refuses a body that is too large with the status of the step, unless the step is in shadow mode", async () => {
  const step: TestStep = {
    name: "a",
    bodyBytes: 4,
    tooLargeStatus: 400,
    requestBody: () => undefined,
  };
  const surface = { answer: hello };
  await using served = await serve([
    { path: "/enforced", steps: [step], surface },
    { path: "/shadowed", steps: [{ ...step, name: "b", mode: "shadow" }], surface },
  ]);
  const post = async (path: string, headers: Record<string, string>): Promise<number> =>
    (await ask(served, path, { method: "POST", body: "12345", headers })).status;
  const framings: Record<string, string>[] = [
    { "content-length": "5" },
    { "transfer-encoding": "chunked" },
  ];
  for (const headers of framings) {
    assert.equal(await post("/enforced", headers), 400);
    assert.equal(await post("/shadowed", headers), 413);
  }
});

test("passes the outcome to responseEnd if the answer reports that it is incomplete", async () => {
  const outcomes: unknown[] = [];
  const steps: TestStep[] = [
    { name: "a", responseEnd: (_, outcome) => void outcomes.push(outcome) },
  ];
  type X = Parameters<NonNullable<TestStep["responseEnd"]>>[0];
  const streamed = (outcome?: "upstreamFailed") => async (x: X) => {
    const sink = await x.stream(200, []);
    await sink.end(undefined, Buffer.from("x"), outcome);
    return undefined;
  };
  await using served = await serve([
    { path: "/whole", steps, surface: { answer: hello } },
    { path: "/failed", steps, surface: { answer: () => ({ ...hello(), outcome: "timedOut" }) } },
    { path: "/stream", steps, surface: { answer: streamed() } },
    { path: "/broken", steps, surface: { answer: streamed("upstreamFailed") } },
  ]);
  for (const path of ["/whole", "/failed", "/stream", "/broken"]) await ask(served, path);
  assert.deepEqual(outcomes, [undefined, "timedOut", undefined, "upstreamFailed"]);
});
