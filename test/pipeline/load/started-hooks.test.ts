/** Tests the checks of what `start` of a plugin returns and of how long it takes, and the stop of a generation. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test, type TestContext } from "node:test";
import { deprecations, type Deprecation } from "../../../src/contract/version.ts";
import {
  defineService,
  defineStep,
  defineSurface,
  type StepHooks,
  type Exchange,
  type Reply,
} from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { testService, testStep, testSurface } from "../../../src/testing/test-plugin.ts";
import { ask, serve, type TestRoute, type TestStep } from "../harness.ts";

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

function deprecate(t: TestContext, entry: Omit<Deprecation, "removedIn" | "instead">): void {
  deprecations.push({ ...entry, removedIn: "2.0", instead: "Remove it." });
  t.after(() => deprecations.pop());
}

const warning = (hook: string): RegExp =>
  new RegExp(`the hook ${hook} will be removed in version 2.0`);

test("the start of a service and of a step with a deprecated hook logs a warning", async (t) => {
  deprecate(t, { kind: "service", hook: "ready" });
  deprecate(t, { kind: "step", hook: "settled" });
  const start = (): { service: object; ready: () => true } => ({ service: {}, ready: () => true });
  await using service = await testService(defineService({ name: "old", description, start }));
  assert.match(service.lines.join("\n"), warning("ready"));
  await using step = await testStep(stepWith({ settled() {} }));
  assert.match(step.lines.join("\n"), warning("settled"));
});

test("a running exchange finishes on its generation, which stops afterwards", async () => {
  const gate = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const stopped: string[] = [];
  const step = (name: string): TestStep => ({
    name,
    requestHeaders: () => {},
    stop: () => void stopped.push(name),
  });
  const route = (text: string, steps: TestStep[], wait?: Promise<void>): TestRoute => ({
    path: "/x",
    steps,
    surface: {
      async answer(_: Exchange): Promise<Reply> {
        entered.resolve();
        await wait;
        return { status: 200, body: text };
      },
    },
  });
  await using served = await serve([route("old", [step("old")], gate.promise)]);
  const slow = ask(served, "/x");
  await entered.promise;
  await served.reload([route("new", [step("new")])]);
  assert.equal((await ask(served, "/x")).body, "new");
  assert.deepEqual(stopped, []);
  gate.resolve();
  assert.equal((await slow).body, "old");
  while (stopped.length === 0) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(stopped, ["old"]);
});

test("a kept-alive connection runs its next request on the new generation", async () => {
  const route = (text: string): TestRoute => ({
    path: "/x",
    surface: { answer: () => ({ status: 200, body: text }) },
  });
  await using served = await serve([route("old")]);
  const socket = connect(served.port, "127.0.0.1");
  const next = async (): Promise<string> => {
    socket.write("GET /x HTTP/1.1\r\nhost: x\r\n\r\n");
    const [chunk] = await once(socket, "data");
    return String(chunk);
  };
  assert.match(await next(), /old$/);
  await served.reload([route("new")]);
  assert.match(await next(), /new$/);
  socket.destroy();
});

test("a plugin that cannot stop hides neither its own error nor the reason why another did not start", async () => {
  const surface = { answer: (): Reply => ({ status: 200, body: "served" }) };
  await using served = await serve([{ path: "/x", surface }]);
  const unstoppable: TestStep = {
    name: "unstoppable",
    requestHeaders: () => {},
    stop() {
      throw new Error("held");
    },
  };
  const broken: TestRoute = {
    path: "/broken",
    get surface(): never {
      throw new Error("no start");
    },
  };
  await assert.rejects(
    served.reload([{ path: "/x", steps: [unstoppable], surface }, broken]),
    /SLUICE_PLUGIN_START.*did not start: no start/,
  );
  assert.match(served.errors.join(), /did not stop cleanly/);
  assert.equal((await ask(served, "/x")).body, "served");
});
