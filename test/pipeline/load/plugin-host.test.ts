/** Tests what the host of one plugin instance gives, and what ends with the instance. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Host, Log } from "../../../src/plugin.ts";
import { createMetrics } from "../../../src/base/metrics.ts";
import { createHost, type HostUser } from "../../../src/pipeline/load/plugin-host.ts";
import { pluginCounts } from "../../../src/pipeline/observe/plugin-counts.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { serve, testResources, type TestStep } from "../harness.ts";

function hostOf(manifest: Partial<HostUser> = {}) {
  const clock = manualClock();
  const errors: string[] = [];
  const log: Log = {
    debug() {},
    info() {},
    warn() {},
    error: (_, message) => void errors.push(message),
    child: () => log,
  };
  const metrics = createMetrics();
  const resources = { ...testResources(log), clock, metrics };
  const config = { environment: "dev", file: "/etc/pipeline.yaml" } as const;
  const services: Record<string, unknown> = { gateway: "the gateway" };
  const user = { name: "acme", ...manifest };
  const counts = pluginCounts({ name: "acme", kind: "service" }, resources);
  const find = (name: string): unknown => services[name];
  const { host, close } = createHost(
    user,
    { mode: "enforce", strict: true },
    config,
    resources,
    counts,
    find,
  );
  return { host, close, clock, errors, metrics };
}

test("gives the services that the manifest lists, and no others", () => {
  const { host } = hostOf({ uses: ["gateway"], usesIfInstalled: ["tools"] });
  assert.equal(host.use("gateway"), "the gateway");
  assert.equal(host.use("tools", { ifInstalled: true }), undefined);
  assert.throws(() => host.use("routes"), /must list the service "routes" under `uses`/);
  assert.throws(() => host.use("tools"), /under `uses`/);
  const optional = (): unknown => host.use("gateway", { ifInstalled: true });
  assert.throws(optional, /under `usesIfInstalled`/);
});

test("gives the variables that the manifest lists, and no others", () => {
  const { host } = hostOf({ permissions: { env: ["ACME_KEY"] } });
  assert.equal(host.variable("ACME_KEY"), undefined);
  assert.throws(
    () => host.variable("HOME"),
    /must list the variable "HOME" under `permissions.env`/,
  );
  assert.throws(() => hostOf().host.variable("ACME_KEY"), /permissions\.env/);
});

test("gives the parts of the deployment that the manifest lists, and no others", () => {
  for (const part of ["store", "seal", "claims"] as const) {
    const { host } = hostOf({ permissions: { deployment: [part] } });
    assert.notEqual(host[part], undefined);
    const copied = ["store", "seal", "claims"].filter((each) => Object.hasOwn({ ...host }, each));
    assert.deepEqual(copied, [part]);
    for (const user of [{}, { permissions: {} }]) {
      const message = `must list "${part}" under \`permissions\\.deployment\``;
      assert.throws(() => hostOf(user).host[part], new RegExp(message));
    }
  }
});

test("gives every plugin the members that reach only its own data and work", () => {
  const { host } = hostOf();
  const members = Object.entries(Object.getOwnPropertyDescriptors(host))
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

test("runs a timer until the plugin stops or the timer is disposed of", () => {
  const { host, close, clock } = hostOf();
  let [runs, others] = [0, 0];
  host.every(100, () => void runs++);
  const other = host.every(100, () => void others++);
  clock.advance(250);
  other[Symbol.dispose]();
  clock.advance(100);
  void close();
  clock.advance(1_000);
  assert.deepEqual([runs, others], [3, 2]);
  assert.throws(() => host.every(100, () => {}), /plugin "acme" started a timer/);
});

test("logs the error of a timer and continues", async () => {
  const { host, clock, errors } = hostOf();
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
  assert.deepEqual(errors, Array<string>(4).fill("a timer of the plugin failed"));
});

test("begins no run of a task while its promise is pending, and aborts its signal at the stop", async () => {
  const { host, close, clock } = hostOf();
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
  void close();
  assert.ok(signals.every(({ aborted }) => aborted));
});

test("refuses an interval that Node would shorten to a millisecond", () => {
  const { host } = hostOf();
  const every =
    (ms: number): Parameters<typeof assert.throws>[0] =>
    () => {
      host.every(ms, () => {});
    };
  for (const ms of [0, -1, Number.NaN, 2 ** 31]) assert.throws(every(ms), RangeError);
});

test("has the folder of pipeline.yaml", () => {
  const { folder }: Host = hostOf().host;
  assert.equal(folder, "/etc/");
});

test("a reload ends the timers of the instances that it stops", async () => {
  const clock = manualClock();
  const runs: string[] = [];
  const step = (name: string): TestStep => ({
    name,
    onStart: (host) => void host.every(100, () => void runs.push(name)),
  });
  const surface = { answer: () => ({ status: 200, body: "hello" }) };
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
