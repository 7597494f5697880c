/** The time limit of steps: a hook that hangs affects only its own request. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Outcome, Reply, SurfaceHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { ask, serve, type TestStep } from "../harness.ts";

const fine: SurfaceHooks = { answer: () => ({ status: 200, body: "fine" }) };
const streaming: SurfaceHooks = {
  async answer(x) {
    const sink = await x.stream(200, []);
    sink.write("first");
    await sink.end(undefined, Buffer.from("last"));
    return undefined;
  },
};

/** A hook that hangs until the test releases it, and reports when it was called. */
function hanging<T>(): { hook: () => Promise<T>; reached: Promise<void>; go: (value: T) => void } {
  const reached = Promise.withResolvers<void>();
  const { promise, resolve } = Promise.withResolvers<T>();
  const hook = (): Promise<T> => {
    reached.resolve();
    return promise;
  };
  return { hook, reached: reached.promise, go: resolve };
}

async function hang(
  hooks: (hook: () => Promise<never>) => Partial<TestStep>,
  surface: SurfaceHooks = fine,
) {
  const clock = manualClock();
  const outcomes: Outcome[] = [];
  const { hook, reached, go } = hanging<never>();
  const above: TestStep = { name: "above", settled: (_, outcome) => void outcomes.push(outcome) };
  const step: TestStep = { name: "slow", timeoutMs: 500, ...hooks(hook) };
  const served = await serve([{ path: "/", surface, steps: [above, step] }], { clock });
  const answer = ask(served, "/", { method: "POST", body: "x" });
  await reached;
  return { served, answer, clock, outcomes, go };
}

const phases: Record<string, (hook: () => Promise<never>) => Partial<TestStep>> = {
  requestHeaders: (hook) => ({ requestHeaders: hook }),
  requestBody: (hook) => ({ requestBody: hook }),
  responseHeaders: (hook) => ({ responseHeaders: hook }),
  responseEnd: (hook) => ({ responseEnd: hook }),
  around: (hook) => ({ around: hook }),
};

describe("a hook that hangs", () => {
  for (const [phase, hooks] of Object.entries(phases)) {
    it(`${phase}: answers 500 after the limit, logs the step and ignores its later result`, async () => {
      const { served, answer, clock, outcomes, go } = await hang(hooks);
      await using _served = served;
      clock.advance(499);
      assert.equal(served.listener.running, 1);
      clock.advance(1);
      const { status, body } = await answer;
      assert.equal(status, 500);
      assert.match(body, /"error_code":"GATEWAY_INTERNAL_ERROR"/);
      go({ status: 201 } as never);
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(served.errors.length, 1);
      assert.match(
        served.errors[0] ?? "",
        new RegExp(`a step exceeded its time limit .*"plugin":"slow","phase":"${phase}"`),
      );
      assert.deepEqual(outcomes, ["replied"]);
      assert.equal(served.listener.running, 0);
    });

    it(`${phase}: continues without the step in shadow mode`, async () => {
      const shadow = (hook: () => Promise<never>) => ({ ...hooks(hook), mode: "shadow" as const });
      const { served, answer, clock, outcomes } = await hang(shadow);
      await using _served = served;
      clock.advance(500);
      const { status, body } = await answer;
      assert.deepEqual([status, body], [200, "fine"]);
      assert.deepEqual(outcomes, ["complete"]);
    });
  }

  it("responseEnd of a stream: cuts off the answer, because bytes have been sent", async () => {
    const { served, answer, clock, outcomes } = await hang(
      (hook) => ({ responseEnd: hook }),
      streaming,
    );
    await using _served = served;
    clock.advance(500);
    await assert.rejects(answer);
    assert.deepEqual(outcomes, ["upstreamFailed"]);
  });

  it("around: does not count the time of the surface", async () => {
    const clock = manualClock();
    const surface = hanging<Reply>();
    const afterwards = hanging<void>();
    const steps: TestStep[] = [
      {
        name: "slow",
        timeoutMs: 500,
        async around(_, below) {
          const reply = await below.answer();
          await afterwards.hook();
          return reply;
        },
      },
    ];
    await using served = await serve([{ path: "/", surface: { answer: surface.hook }, steps }], {
      clock,
    });
    const answer = ask(served, "/");
    await surface.reached;
    clock.advance(10_000);
    assert.equal(served.listener.running, 1);
    surface.go({ status: 200, body: "fine" });
    await afterwards.reached;
    clock.advance(500);
    assert.equal((await answer).status, 500);
  });

  it("around: throws if the step calls the surface after the limit", async () => {
    const clock = manualClock();
    const before = hanging<void>();
    const refused = Promise.withResolvers<unknown>();
    let asked = 0;
    const slow: TestStep = {
      name: "slow",
      timeoutMs: 500,
      async around(_, below) {
        await before.hook();
        try {
          return await below.answer();
        } catch (error) {
          refused.resolve(error);
          throw error;
        }
      },
    };
    const surface: SurfaceHooks = {
      answer: () => {
        asked++;
        return { status: 200 };
      },
    };
    await using served = await serve([{ path: "/", surface, steps: [slow] }], { clock });
    const answer = ask(served, "/");
    await before.reached;
    clock.advance(500);
    assert.equal((await answer).status, 500);
    before.go();
    assert.match(String(await refused.promise), /after its time limit/);
    assert.equal(asked, 0);
  });

  it("timeoutMs 0: there is no limit", async () => {
    const { served, answer, clock, go } = await hang((hook) => ({
      requestHeaders: hook,
      timeoutMs: 0,
    }));
    await using _served = served;
    clock.advance(86_400_000);
    go(undefined as never);
    assert.equal((await answer).status, 200);
  });
});
