/** Tests what the host of one plugin instance gives, and what ends with the instance. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { defineService, type Host } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { testService } from "../../../src/testing/test-plugin.ts";
import { serve, type TestStep } from "../harness.ts";

async function start() {
  const clock = manualClock();
  const started = Promise.withResolvers<Host>();
  const steps = [{ name: "acme", onStart: started.resolve }];
  const served = await serve([{ path: "/", steps, surface }], { clock });
  return Object.assign(served, { clock, host: await started.promise });
}

const surface = { answer: () => ({ status: 200, body: "hello" }) };
const parts = ["store", "seal", "claims"] as const;
let plain: Host;
let permitted: Host;

const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());
before(async () => {
  plain = stack.use(await start()).host;
  const acme = defineService({
    name: "acme",
    description: "Gives its host.",
    // TypeScript does not know a service that is not installed.
    usesIfInstalled: ["acme-extras" as never],
    uses: ["gateway"],
    permissions: { env: ["ACME_KEY"], deployment: ["seal"] },
    start(_: never, host) {
      permitted = host;
      return { service: {} };
    },
  });
  stack.use(await testService(acme));
});

test("gives the services that the manifest lists, and no others", () => {
  const host = permitted;
  assert.equal(host.use("gateway").variable("ACME_KEY"), undefined);
  assert.equal(host.use("acme-extras" as never, { ifInstalled: true }), undefined);
  assert.throws(() => host.use("routes"), /must list the service "routes" under `uses`/);
  assert.throws(() => host.use("acme-extras" as never), /under `uses`/);
  const optional = (): unknown => host.use("gateway", { ifInstalled: true });
  assert.throws(optional, /under `usesIfInstalled`/);
});

test("gives the variables that the manifest lists, and no others", () => {
  const host = permitted;
  assert.equal(host.variable("ACME_KEY"), undefined);
  assert.throws(
    () => host.variable("HOME"),
    /must list the variable "HOME" under `permissions.env`/,
  );
  assert.throws(() => plain.variable("ACME_KEY"), /permissions\.env/);
});

test("gives the parts of the deployment that the manifest lists, and no others", () => {
  const copied = parts.filter((each) => Object.hasOwn({ ...permitted }, each));
  assert.deepEqual(copied, ["seal"]);
  for (const { host, missing } of [
    { host: permitted, missing: ["store", "claims"] as const },
    { host: plain, missing: parts },
  ]) {
    for (const part of missing) {
      const message = `must list "${part}" under \`permissions\\.deployment\``;
      assert.throws(() => host[part], new RegExp(message));
    }
  }
});

test("gives every plugin the members that reach only its own data and work", () => {
  const members = Object.entries(Object.getOwnPropertyDescriptors(plain))
    .filter(([, property]) => "value" in property)
    .map(([name]) => name);
  // docs/writing-plugins.md lists them. `use`, `variable` and `upstream` check the manifest when they are called.
  assert.deepEqual(members.toSorted(), [
    "clock",
    "compute",
    "environment",
    "every",
    "folder",
    "log",
    "memory",
    "metrics",
    "mode",
    "storage",
    "strict",
    "threads",
    "upstream",
    "use",
    "variable",
    "version",
  ]);
});

test("runs a timer until the plugin stops or the timer is disposed of", async () => {
  await using running = await start();
  const { host, clock } = running;
  let [runs, others] = [0, 0];
  host.every(100, () => void runs++);
  const other = host.every(100, () => void others++);
  clock.advance(250);
  other[Symbol.dispose]();
  clock.advance(100);
  await running[Symbol.asyncDispose]();
  clock.advance(1_000);
  assert.deepEqual([runs, others], [3, 2]);
  assert.throws(() => host.every(100, () => {}), /plugin "acme" started a timer/);
});

test("logs the error of a timer and continues", async () => {
  await using running = await start();
  const { host, clock, errors } = running;
  let runs = 0;
  host.every(100, () => {
    runs++;
    throw new Error("broken");
  });
  host.every(100, () => Promise.reject(new Error("broken")));
  clock.advance(100);
  await new Promise(setImmediate);
  clock.advance(100);
  await new Promise(setImmediate);
  assert.equal(runs, 2);
  assert.equal(errors.length, 4);
  for (const line of errors) assert.match(line, /^a timer of the plugin failed/);
});

test("begins no run of a task while its promise is pending, and aborts its signal at the stop", async () => {
  await using running = await start();
  const { host, clock } = running;
  const ended = Promise.withResolvers<void>();
  const signals: AbortSignal[] = [];
  host.every(100, (signal) => {
    signals.push(signal);
    return ended.promise;
  });
  clock.advance(500);
  assert.equal(signals.length, 1);
  ended.resolve();
  await new Promise(setImmediate);
  clock.advance(100);
  assert.equal(signals.length, 2);
  await running[Symbol.asyncDispose]();
  assert.ok(signals.every(({ aborted }) => aborted));
});

test("refuses an interval that Node would shorten to a millisecond", () => {
  const every =
    (ms: number): Parameters<typeof assert.throws>[0] =>
    () => {
      plain.every(ms, () => {});
    };
  for (const ms of [0, -1, Number.NaN, 2 ** 31]) assert.throws(every(ms), RangeError);
});

test("has the folder of pipeline.yaml", () => {
  assert.ok(permitted.folder.endsWith("/"));
  assert.ok(existsSync(join(permitted.folder, "data")), "the data folder of the test kit");
});

test("a reload ends the timers of the instances that it stops", async () => {
  const clock = manualClock();
  const runs: string[] = [];
  const step = (name: string): TestStep => ({
    name,
    onStart: (host) => void host.every(100, () => void runs.push(name)),
  });
  const steps = [step("kept"), step("stopped")];
  await using served = await serve([{ path: "/", steps, surface }], { clock });
  clock.advance(100);
  assert.deepEqual(runs.splice(0), ["kept", "stopped"]);
  await served.reload([{ path: "/", steps: steps.slice(0, 1), surface }]);
  await new Promise(setImmediate);
  clock.advance(100);
  // The harness starts another instance of each step.
  assert.deepEqual(runs, ["kept"]);
});
