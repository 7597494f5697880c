/** Tests the checks of what `start` of a plugin returns, and of how long it takes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { defineService, defineStep, defineSurface, type StepHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { testService, testStep, testSurface } from "../../../src/testing/test-plugin.ts";
import { ask, serve } from "../harness.ts";

const description = "Returns wrong hooks.";

/** Returns a step whose `start` returns these hooks, as a plugin in JavaScript can. */
function stepWith(hooks: unknown): ReturnType<typeof defineStep> {
  return defineStep({ name: "guard", description, start: () => hooks as StepHooks });
}

test("an unknown hook of a step is a fault, so that a misspelled guard lets nothing pass", async () => {
  const hooks = { responseHeader() {}, requestHeaders() {} };
  await assert.rejects(
    testStep(stepWith(hooks)),
    /SLUICE_PLUGIN_START.*the unknown hook "responseHeader"; did you mean "responseHeaders"\?/,
  );
});

test("a misspelled hook of a class is a fault, and its other methods are not", async () => {
  class Guard {
    count = 0;
    countUp(): void {
      this.count++;
    }
    requestHeaders(): void {
      this.countUp();
    }
  }
  class Misspelled extends Guard {
    requestHeader(): void {}
  }
  await using tested = await testStep(stepWith(new Guard()));
  assert.equal((await tested.send()).status, 200);
  await assert.rejects(testStep(stepWith(new Misspelled())), /unknown hook "requestHeader"/);
});

test("a hook of the wrong type, and hooks that are not an object, are faults", async () => {
  await assert.rejects(
    testStep(stepWith({ requestHeaders: "x" })),
    /the hook `requestHeaders` must be a function, got string/,
  );
  await assert.rejects(testStep(stepWith(undefined)), /`start` must return an object with hooks/);
});

test("an unknown hook of a surface and of a service is a fault, and so is a missing answer", async () => {
  const surface = (hooks: object): ReturnType<typeof defineSurface> =>
    defineSurface({ name: "odd", description, start: () => hooks as never });
  await assert.rejects(testSurface(surface({ answr() {} })), /did you mean "answer"\?/);
  await assert.rejects(testSurface(surface({})), /a surface must have the hook `answer`/);
  const hooks = { service: {}, redy: () => "no" };
  await assert.rejects(
    testService(defineService({ name: "odd", description, start: () => hooks })),
    /the unknown hook "redy"; did you mean "ready"\?/,
  );
});

test("a start that never returns fails the load after 30 s, and later loads work", async () => {
  const clock = manualClock();
  const surface = { answer: () => ({ status: 200, body: "served" }) };
  await using served = await serve([{ path: "/x", surface }], { clock });
  const started = Promise.withResolvers<void>();
  const late = Promise.withResolvers<StepHooks>();
  let stops = 0;
  const slow = defineStep<never>({
    name: "slow",
    description,
    start() {
      started.resolve();
      return late.promise;
    },
  });
  const failing = served.reload([{ path: "/x", steps: [{ name: "slow" }], surface }], [slow]);
  await started.promise;
  clock.advance(30_000);
  await assert.rejects(failing, /slow did not start: `start` did not return within 30 s/);
  late.resolve({ stop: () => void stops++ });
  while (stops === 0) await new Promise(setImmediate);
  await served.reload([{ path: "/y", surface }]);
  assert.equal((await ask(served, "/y")).body, "served");
});
