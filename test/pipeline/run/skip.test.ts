/** Steps with `onError: skip`: a request continues without a step that fails. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { explain } from "../../../src/pipeline/observe/explanation.ts";
import type { ExchangeRecord } from "../../../src/pipeline/observe/record.ts";
import { refuse, type Exchange, type SurfaceHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const hello: SurfaceHooks = { answer: () => ({ status: 200, body: "hello" }) };
const streaming: SurfaceHooks = {
  async answer(x) {
    const sink = await x.stream(200, []);
    sink.write(Buffer.from("one"));
    sink.write(Buffer.from("two"));
    await sink.end();
    return undefined;
  },
};

const hooks = [
  "requestHeaders",
  "requestBody",
  "around",
  "responseHeaders",
  "responseChunk",
  "responseEnd",
] as const;
type Hook = (typeof hooks)[number];

const broken = (): never => {
  throw new Error("broken");
};
const rejecting = (): Promise<never> => Promise.reject(new Error("broken"));

const failures: Readonly<Record<string, (hook: Hook) => unknown>> = {
  throws: () => broken,
  rejects: () => rejecting,
  "breaks its contract"(hook) {
    if (hook === "responseHeaders") {
      return (_: Exchange, head: { set(name: string, value: string): void }) =>
        head.set("x-broken", "a\nb");
    }
    return () => 5;
  },
  "returns a reply that cannot be sent": (hook) =>
    hook === "responseHeaders"
      ? (_: Exchange, head: { status: number }) => void (head.status = 9)
      : () => ({ status: 200, headers: ["x-broken"] }),
};

interface Seen {
  readonly records: ExchangeRecord[];
  readonly settled: string[];
}

function watched(step: TestStep): { readonly steps: TestStep[]; readonly seen: Seen } {
  const seen: Seen = { records: [], settled: [] };
  const settled: TestStep["settled"] = (_, outcome) => void seen.settled.push(outcome);
  return { steps: [{ onError: "skip", settled, ...step }], seen };
}

for (const hook of hooks) {
  describe(hook, () => {
    for (const [how, failing] of Object.entries(failures)) {
      it(`${how}: the request continues without the step`, async () => {
        const { steps, seen } = watched({ name: "bad", [hook]: failing(hook) });
        await using served = await serve([{ path: "/", steps, surface: hello }], {
          observers: [(record) => void seen.records.push(record)],
        });
        const { status, body, headers } = await ask(served, "/", { method: "POST", body: "x" });
        assert.deepEqual([status, body, headers["x-broken"]], [200, "hello", undefined]);
        while (seen.records.length === 0) await new Promise(setImmediate);
        assert.deepEqual(seen.settled, ["complete"]);
        assert.equal(served.errors.length, 1);
        assert.match(served.errors[0] ?? "", /a plugin failed and was skipped .*"plugin":"bad"/);
        const [record] = seen.records;
        assert.ok(record !== undefined);
        assert.equal(explain(record).steps[0]?.did, "failed, skipped");
      });
    }
  });
}

for (const hook of hooks.filter((name) => name !== "responseChunk")) {
  test(`${hook}: a step that is late is skipped`, async () => {
    const clock = manualClock();
    const reached = Promise.withResolvers<void>();
    const hanging = (): Promise<never> => {
      reached.resolve();
      return new Promise(() => {});
    };
    const { steps, seen } = watched({ name: "late", timeoutMs: 500, [hook]: hanging });
    await using served = await serve([{ path: "/", steps, surface: hello }], { clock });
    const answer = ask(served, "/", { method: "POST", body: "x" });
    await reached.promise;
    clock.advance(500);
    assert.deepEqual([(await answer).status, (await answer).body], [200, "hello"]);
    assert.equal(served.errors.length, 1);
    assert.match(served.errors[0] ?? "", /exceeded its time limit and was skipped/);
    while (seen.settled.length === 0) await new Promise(setImmediate);
  });
}

test("the hooks that follow do not run, except settled, and other steps are not affected", async () => {
  const seen: string[] = [];
  const all = (name: string): TestStep => ({
    name,
    requestBody: () => void seen.push(`${name} requestBody`),
    around: (_, surface) => (seen.push(`${name} around`), surface.answer()),
    responseHeaders: () => void seen.push(`${name} responseHeaders`),
    responseChunk: () => void seen.push(`${name} responseChunk`),
    responseEnd: () => void seen.push(`${name} responseEnd`),
    settled: () => void seen.push(`${name} settled`),
  });
  const bad: TestStep = { ...all("bad"), onError: "skip", requestHeaders: broken };
  await using served = await serve([{ path: "/", steps: [bad, all("good")], surface: hello }]);
  await ask(served, "/", { method: "POST", body: "x" });
  while (!seen.includes("bad settled")) await new Promise(setImmediate);
  const names = ["requestBody", "around", "responseHeaders", "responseChunk", "responseEnd"];
  const expected = [...names, "settled"].map((name) => `good ${name}`);
  assert.deepEqual(seen.toSorted(), ["bad settled", ...expected].toSorted());
});

test("a step whose state cannot be created is skipped as a whole", async () => {
  let created = 0;
  const seen: string[] = [];
  const step: TestStep = {
    name: "bad",
    onError: "skip",
    createState() {
      created++;
      throw new Error("no state");
    },
    requestHeaders: () => void seen.push("requestHeaders"),
    settled: () => void seen.push("settled"),
  };
  await using served = await serve([{ path: "/", steps: [step], surface: hello }]);
  assert.equal((await ask(served, "/")).status, 200);
  await served.listener.close(1_000);
  assert.deepEqual([created, seen, served.errors.length], [1, [], 1]);
});

test("a refusal of a step is sent, because it is not a failure", async () => {
  const refusal = refuse("GATEWAY_CONFLICT");
  for (const hook of ["requestHeaders", "requestBody", "around", "responseEnd"]) {
    for (const reply of [refusal, Promise.resolve(refusal)]) {
      const step: TestStep = { name: "bad", onError: "skip", [hook]: () => reply };
      await using served = await serve([{ path: "/", steps: [step], surface: hello }]);
      assert.equal((await ask(served, "/", { method: "POST", body: "x" })).status, 409, hook);
    }
  }
});

test("a head that the step has changed validly is sent", async () => {
  for (const waits of [false, true]) {
    const step: TestStep = {
      name: "good",
      onError: "skip",
      responseHeaders(_, head) {
        head.set("x-good", "1");
        head.status = 201;
        return waits ? Promise.resolve() : undefined;
      },
    };
    await using served = await serve([{ path: "/", steps: [step], surface: hello }]);
    const { status, headers } = await ask(served, "/");
    assert.deepEqual([status, headers["x-good"]], [201, "1"]);
  }
});

test("the fields that a step has set before it failed are not sent", async () => {
  const step: TestStep = {
    name: "bad",
    onError: "skip",
    responseHeaders(_, head) {
      head.set("x-half", "1");
      throw new Error("broken");
    },
  };
  await using served = await serve([{ path: "/", steps: [step], surface: hello }]);
  assert.equal((await ask(served, "/")).headers["x-half"], undefined);
});

test("a step that has called the surface cannot be skipped", async () => {
  const after: Readonly<Record<string, TestStep["around"]>> = {
    "at once": (_, surface) => (void surface.answer(), broken()),
    later: async (_, surface) => (await surface.answer(), broken()),
    twice: (_, surface) => (void surface.answer(), surface.answer()),
  };
  for (const [how, around] of Object.entries(after)) {
    if (around === undefined) continue;
    const step: TestStep = { name: "bad", onError: "skip", around };
    await using served = await serve([{ path: "/", steps: [step], surface: hello }]);
    assert.equal((await ask(served, "/")).status, 500, how);
  }
});

test("a failure of the surface is not one of the step around it", async () => {
  const step: TestStep = { name: "good", onError: "skip", around: (_, { answer }) => answer() };
  for (const failing of [broken, rejecting]) {
    await using served = await serve([{ path: "/", steps: [step], surface: { answer: failing } }]);
    assert.equal((await ask(served, "/")).status, 500);
    assert.match(served.errors.join(), /"plugin":"surface-0"/);
  }
});

test("a step around a streaming surface passes the stream through", async () => {
  const step: TestStep = { name: "good", onError: "skip", around: (_, { answer }) => answer() };
  await using served = await serve([{ path: "/", steps: [step], surface: streaming }]);
  assert.equal((await ask(served, "/")).body, "onetwo");
});

test("a step that has changed a part of the body cannot be skipped", async () => {
  let chunks = 0;
  const step: TestStep = {
    name: "bad",
    onError: "skip",
    responseChunk: () => (chunks++ === 0 ? Buffer.from("ONE") : broken()),
  };
  await using served = await serve([{ path: "/", steps: [step], surface: streaming }]);
  await assert.rejects(ask(served, "/"));
});

test("a step that has only read the body is skipped in the middle of a stream", async () => {
  let chunks = 0;
  const step: TestStep = {
    name: "bad",
    onError: "skip",
    responseChunk: () => (chunks++ === 0 ? undefined : broken()),
  };
  await using served = await serve([{ path: "/", steps: [step], surface: streaming }]);
  assert.equal((await ask(served, "/")).body, "onetwo");
  assert.equal(chunks, 2);
});
