/**
 * A plugin that throws, rejects or breaks its contract affects only its own request: each hook of a step and of a
 * surface, with each failure. Hooks that hang are tested in step-limit.test.ts, and `onError: skip` in skip.test.ts.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { SurfaceHooks } from "../../../src/plugin.ts";
import { ask, serve, type TestRoute, type TestStep } from "../harness.ts";

const broken = (): never => {
  throw new Error("broken");
};
const rejecting = (): Promise<never> => Promise.reject(new Error("broken"));

/** Ways in which a hook can fail. Plugins in JavaScript can return values that the types do not allow. */
const failures: Readonly<Record<string, () => unknown>> = {
  throws: broken,
  rejects: rejecting,
  "returns a number": () => 5,
  "returns null": () => null,
  "returns a promise of a number": () => Promise.resolve(5),
  "returns a reply that HTTP does not allow": () => ({ status: 200, headers: ["a b", "c\nd"] }),
};
const stepHooks = [
  "createState",
  "requestHeaders",
  "requestBody",
  "around",
  "responseHeaders",
  "responseChunk",
  "responseEnd",
  "settled",
] as const;

const hello: SurfaceHooks = { answer: () => ({ status: 200, body: "hello" }) };
const streaming: SurfaceHooks = {
  async answer(x) {
    const sink = await x.stream(200, []);
    sink.write(Buffer.from("one"));
    await sink.end(undefined, Buffer.from("two"));
    return undefined;
  },
};

/** Sends a request to the route with the bad plugin, and then one to the route with the good one. */
async function costsOwnRequest(bad: Omit<TestRoute, "path">): Promise<void> {
  let settled = 0;
  const above: TestStep = { name: "above", settled: () => void settled++ };
  const steps = [above, ...(bad.steps ?? [])];
  await using served = await serve([
    { ...bad, path: "/bad", steps },
    { path: "/good", surface: hello },
  ]);
  const body = { method: "POST", body: "x" };
  for (let i = 0; i < 2; i++) {
    // The answer may be complete, a 500 or cut, but it ends.
    await ask(served, "/bad", body).catch(() => undefined);
    const good = await ask(served, "/good", body);
    assert.deepEqual([good.status, good.body], [200, "hello"]);
  }
  while (settled < 2) await new Promise(setImmediate);
  assert.equal(served.listener.running, 0);
}

describe("a step affects only its own request if", () => {
  for (const hook of stepHooks) {
    for (const [how, failing] of Object.entries(failures)) {
      it(`${hook} ${how}`, async () => {
        // A hook that uses the state makes the core create it.
        const step: TestStep = { name: "bad", requestHeaders() {}, [hook]: failing };
        for (const surface of [hello, streaming]) await costsOwnRequest({ steps: [step], surface });
      });
    }
  }
});

describe("a surface affects only its own request if", () => {
  for (const [how, failing] of Object.entries(failures)) {
    it(`answer ${how}`, async () => {
      await costsOwnRequest({ surface: { answer: failing as never } });
    });
  }

  it("answer fails in the middle of its stream", async () => {
    await costsOwnRequest({
      surface: {
        async answer(x) {
          const sink = await x.stream(200, []);
          sink.write("one");
          return broken();
        },
      },
    });
  });

  it("answer fails in a callback", async () => {
    await costsOwnRequest({
      surface: {
        async answer(x) {
          x.signal.addEventListener("abort", broken);
          x.onAbort = { aborted: broken };
          const sink = await x.stream(200, []);
          sink.onDrain = broken;
          sink.fail("upstreamFailed");
          return undefined;
        },
      },
    });
  });
});
