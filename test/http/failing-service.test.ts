/**
 * A service that throws, rejects or breaks its contract affects only the answer for which it was called: each hook that
 * the gateway calls outside of requests, with each failure. Its methods are called by other plugins, so that their
 * failures are failures of these plugins (test/pipeline/run/failing-plugin.test.ts).
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startAdmin } from "../../src/http/admin.ts";
import { backendsOf, readiness } from "../../src/http/readiness.ts";
import { createMetrics } from "../../src/base/metrics.ts";
import { defineService, defineSurface, type ServiceHooks } from "../../src/plugin.ts";
import { keepingLog } from "../../src/testing/keeping-log.ts";
import { openMemoryGateway } from "../../src/testing/memory-gateway.ts";
import { manualClock } from "../../src/testing/clock.ts";

const broken = (): never => {
  throw new Error("broken");
};

/** Ways in which a hook can fail. Plugins in JavaScript can return values that the types do not allow. */
const failures: Readonly<Record<string, () => unknown>> = {
  throws: broken,
  rejects: () => Promise.reject(new Error("broken")),
  "returns a number": () => 5,
  "returns null": () => null,
  "returns a list with null": () => [null, { kind: "x" }],
  "returns an object of numbers": () => ({ own: 5 }),
};

const good: ServiceHooks<unknown> = {
  service: {},
  ready: () => true,
  backends: () => [{ kind: "good", title: "good backend", ready: true }],
};

/** Returns hooks of a service, one of which fails. */
function failing(hook: string, how: () => unknown): ServiceHooks<unknown> {
  return { service: {}, [hook]: how };
}

/** Lets a rejection that nothing handles end the test. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("the other checks of /readyz remain if", () => {
  for (const [how, failure] of Object.entries(failures)) {
    it(`ready ${how}`, async () => {
      const services = new Map([
        ["bad", failing("ready", failure)],
        ["good", good],
      ]);
      const { ready, checks } = readiness({ draining: false, generation: { services } });
      assert.equal(ready, false);
      assert.equal(checks["service good"], "ok");
      assert.ok(Object.values(checks).includes("failed to report"));
      await turn();
    });

    it(`backends ${how}`, async () => {
      const services = new Map([
        ["bad", failing("backends", failure)],
        ["good", good],
      ]);
      const { ready, checks } = readiness({ draining: false, generation: { services } });
      assert.deepEqual([ready, checks["good backend"]], [true, "ok"]);
      assert.deepEqual(backendsOf({ services }), good.backends?.());
      await turn();
    });
  }
});

describe("the admin listener answers others if", () => {
  for (const [how, failure] of Object.entries(failures).slice(0, 2)) {
    it(`admin ${how}`, async () => {
      const lines: string[] = [];
      const admin = await startAdmin({
        host: "127.0.0.1",
        port: 0,
        hosts: [],
        trustProxy: [],
        metrics: createMetrics(),
        pipelines: () => ({}),
        explain: () => Promise.resolve({ exchanges: [], missing: [] }),
        ready: () => ({ ready: true, checks: {} }),
        service: () => failing("admin", failure),
        log: keepingLog(lines),
      });
      try {
        await assert.rejects(fetch(`${admin.url}/bad`));
        assert.match(lines.join("\n"), /an admin request failed .*"service":"bad"/);
        assert.equal((await fetch(`${admin.url}/healthz`)).status, 200);
      } finally {
        await admin.close();
      }
    });
  }
});

describe("the gateway starts, reloads and serves if", () => {
  for (const hook of ["initialized", "update", "stop"] as const) {
    for (const [how, failure] of Object.entries(failures).slice(0, 2)) {
      it(`${hook} ${how}`, async () => {
        let isBroken = true;
        const fail = (): unknown => (isBroken ? failure() : undefined);
        const bad = defineService({
          name: "bad",
          description: "Fails.",
          ...(hook === "update" && { update: fail }),
          start: () => (hook === "update" ? { service: {} } : failing(hook, fail)),
        });
        const surface = defineSurface({
          name: "answers",
          description: "Answers.",
          uses: ["bad" as never],
          start: () => ({ answer: () => ({ status: 200 }) }),
        });
        await using gateway = await openMemoryGateway({
          file: {
            plugins: { bad: "./bad", answers: "./answers" },
            routes: [{ path: "/", to: "answers" }],
          },
          plugins: new Map<string, typeof bad | typeof surface>([
            ["bad", bad],
            ["answers", surface],
          ]),
          clock: manualClock(),
          path: "/",
        });
        assert.equal((await gateway.begin({}).answer).status, 200);
        // The old instance is stopped, and the gateway logs what that reports.
        await gateway.restart(bad).catch((error: unknown) => assert.match(String(error), /broken/));
        assert.equal((await gateway.begin({}).answer).status, 200);
        await turn();
        isBroken = false;
      });
    }
  }
});
