/**
 * A service that throws, rejects or breaks its contract affects only the answer for which it was called: each hook that
 * the gateway calls outside of requests, with each failure. For methods, see test/pipeline/run/failing-plugin.test.ts.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { defineService, type Service, type ServiceHooks } from "../../src/plugin.ts";
import { startWithServices, type ServiceGateway } from "./service-gateway.ts";

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

function serviceOf(name: string, start: Service["start"], more: Partial<Service> = {}): Service {
  const properties = { n: { type: "integer" } };
  const options = { type: "object", properties, additionalProperties: false } as const;
  return defineService({ name, description: "A service of a test.", options, start, ...more });
}

let hooks: Partial<ServiceHooks<object>> = {};
let gateway: ServiceGateway;
let isBroken = true;

before(async () => {
  const bad = serviceOf("bad", () => ({
    service: {},
    ready: () => (hooks.ready === undefined ? true : hooks.ready()),
    backends: () => (hooks.backends === undefined ? [] : hooks.backends()),
    admin: (...args) => hooks.admin?.(...args),
  }));
  const good = serviceOf("good", () => ({
    service: {},
    ready: () => true,
    backends: () => [{ kind: "good", title: "good backend", ready: true }],
  }));
  const failing = Object.entries(failures)
    .slice(0, 2)
    .flatMap(([how, failure]) => {
      const fail = (): unknown => (isBroken ? failure() : undefined);
      return [
        serviceOf(`initialized-${how}`, () => ({ service: {}, initialized: fail as never })),
        serviceOf(`stop-${how}`, () => ({ service: {}, stop: fail as never })),
        serviceOf(`update-${how}`, () => ({ service: {} }), { update: fail }),
      ];
    });
  gateway = await startWithServices([bad, good, ...failing]);
});
after(async () => {
  isBroken = false;
  await gateway[Symbol.asyncDispose]();
});

/** Reads /readyz. An answer after the failure shows that no rejection ended the process. */
async function readyz(): Promise<{ status: number; checks: Record<string, string> }> {
  const response = await fetch(`${gateway.adminUrl}/readyz`);
  const { checks } = (await response.json()) as { checks: Record<string, string> };
  return { status: response.status, checks };
}

describe("the other checks of /readyz remain if", () => {
  for (const [how, failure] of Object.entries(failures)) {
    it(`ready ${how}`, async () => {
      hooks = { ready: () => failure() as never };
      const { status, checks } = await readyz();
      assert.equal(status, 503);
      assert.equal(checks["service good"], "ok");
      assert.ok(Object.values(checks).includes("failed to report"));
    });

    it(`backends ${how}`, async () => {
      hooks = { backends: () => failure() as never };
      const { status, checks } = await readyz();
      assert.deepEqual([status, checks["good backend"]], [200, "ok"]);
      const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      assert.deepEqual(metrics.match(/^sluice_backend_up.*$/gm), [
        'sluice_backend_up{kind="good",backend="good backend"} 1',
      ]);
    });
  }
});

it("the metrics of other backends remain if the details of one are null", async () => {
  const details = null as unknown as object;
  hooks = { backends: () => [{ kind: "bad", title: "bad backend", ready: true, details }] };
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  assert.equal(metrics.match(/^sluice_backend_up\{.*\} 1$/gm)?.length, 2);
});

describe("the admin listener answers others if", () => {
  for (const [how, failure] of Object.entries(failures).slice(0, 2)) {
    it(`admin ${how}`, async () => {
      hooks = { admin: failure };
      await assert.rejects(fetch(`${gateway.adminUrl}/bad`));
      assert.match(gateway.lines.at(-1) ?? "", /an admin request failed .*"service":"bad"/);
      assert.equal((await fetch(`${gateway.adminUrl}/healthz`)).status, 200);
    });
  }
});

it("the gateway starts, reloads and serves if initialized, update and stop throw and reject", async () => {
  const served = async (): Promise<string> => (await fetch(gateway.url)).text();
  assert.equal(await served(), "served");
  const names = Object.keys(failures)
    .slice(0, 2)
    .flatMap((how) => [`initialized-${how}`, `stop-${how}`, `update-${how}`]);
  const sections = Object.fromEntries(names.map((name) => [name, { n: 1 }]));
  assert.deepEqual(await gateway.reload(sections), []);
  assert.equal(await served(), "served");
});
