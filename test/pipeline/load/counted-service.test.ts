/** The counts of what the core calls on a service. */
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { test } from "node:test";
import { createMetrics } from "../../../src/base/metrics.ts";
import { countedService } from "../../../src/pipeline/load/counted-service.ts";
import { pluginCounts } from "../../../src/pipeline/observe/plugin-counts.ts";
import type { ServiceHooks } from "../../../src/plugin.ts";
import { manualClock } from "../../../src/testing/clock.ts";

/** Returns the counted hooks, and a function that returns the values of a metric by hook and reason. */
function countedHooks(hooks: object) {
  const [metrics, clock] = [createMetrics(), manualClock()];
  const counts = pluginCounts({ name: "acme", kind: "service" }, { metrics, clock });
  const values = (name: string): Record<string, number> =>
    Object.fromEntries(
      metrics
        .read(`sluice_plugin_${name}_total`)
        .map(({ labels: { hook, reason }, value }) => [[hook, reason].join(" ").trim(), value]),
    );
  // A plugin in JavaScript can return anything.
  return { counted: countedService(hooks as ServiceHooks<unknown>, counts), values, clock };
}

test("the hooks run on the object of the plugin, and hooks that it lacks stay missing", () => {
  class Hooks {
    readonly #state = "fine";
    get service(): string {
      return this.#state;
    }
    ready(): string {
      return this.#state;
    }
  }
  const { counted, values } = countedHooks(new Hooks());
  assert.deepEqual([counted.service, counted.ready?.()], ["fine", "fine"]);
  assert.deepEqual(Object.keys(counted), ["service", "ready"]);
  assert.deepEqual([values("timed"), values("errors")], [{ ready: 1 }, {}]);
});

test("a report that the contract does not allow is counted and passed on", async () => {
  for (const report of [undefined, false, 1, null, []]) {
    const { counted, values } = countedHooks({ ready: () => report, backends: () => "none" });
    assert.equal(counted.ready?.(), report);
    assert.equal(counted.backends?.(), "none");
    assert.deepEqual(values("errors"), { "ready contract": 1, "backends contract": 1 });
  }
  const { counted, values } = countedHooks({ ready: () => Promise.resolve(true) });
  await (counted.ready?.() as unknown);
  assert.deepEqual(values("errors"), { "ready contract": 1 });
});

test("an exception and a rejection are counted and passed on", async () => {
  const broken = (): never => {
    throw new Error("broken");
  };
  const { counted, values } = countedHooks({
    initialized: () => Promise.reject(new Error("broken")),
    ready: broken,
    backends: broken,
  });
  await assert.rejects(async () => counted.initialized?.(), /broken/);
  assert.throws(() => counted.ready?.(), /broken/);
  assert.throws(() => counted.backends?.(), /broken/);
  const each = { "initialized throw": 1, "ready throw": 1, "backends throw": 1 };
  assert.deepEqual(values("errors"), each);
});

test("a member that is not a function fails when it is called", () => {
  const { counted, values } = countedHooks({ ready: true });
  assert.throws(() => counted.ready?.(), TypeError);
  assert.deepEqual(values("errors"), { "ready throw": 1 });
});

test("the time of an admin request ends with its response", async () => {
  const { counted, values, clock } = countedHooks({ admin() {} });
  const response = new EventEmitter();
  // The hook of this test uses neither of them.
  counted.admin?.({} as IncomingMessage, response as ServerResponse, "127.0.0.1");
  clock.advance(250);
  assert.deepEqual(values("timed"), { admin: 0 });
  response.emit("close");
  await new Promise(setImmediate);
  assert.deepEqual([values("timed"), values("seconds")], [{ admin: 1 }, { admin: 0.25 }]);
});
