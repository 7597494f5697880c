/** Tests the contract suite: each rule finds a plugin that breaks it, and a good plugin breaks none. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { defineStep, defineSurface } from "sluice-gateway/plugin";
import { judge, ruleNames } from "../../src/testing/suite/suite.ts";
import { badPlugins, leftovers } from "./bad-plugins.ts";

after(() => {
  for (const each of leftovers) each[Symbol.dispose]();
});

for (const { rule, problem, plugin, example = {} } of badPlugins) {
  test(`the rule ${rule} finds ${plugin.name}`, async (t) => {
    const { fetch } = globalThis;
    // One of the plugins replaces it.
    t.after(() => void (globalThis.fetch = fetch));
    const only = ["manifest", rule];
    const findings = await judge(plugin, { example, patienceMs: 300, only });
    const found = findings.find((each) => each.rule === rule);
    assert.match(found?.problems.join("\n") ?? "", problem);
  });
}

test("every rule has a plugin that breaks it", () => {
  const broken = new Set(badPlugins.map(({ rule }) => rule));
  assert.deepEqual(
    ruleNames.filter((rule) => !broken.has(rule)),
    [],
  );
});

test("a good step breaks no rule", async () => {
  const plugin = defineStep<{ readonly limit: number }, { bytes: number }>({
    name: "good-step",
    contract: "^1",
    description: "Counts the bytes of an answer.",
    options: {
      type: "object",
      properties: { limit: { type: "integer", minimum: 1, maximum: 9, default: 3 } },
      additionalProperties: false,
    },
    operation: () => ({ refusals: [{ code: "GATEWAY_CONFLICT" }] }),
    start(_, host) {
      const timer = host.clock.every(1_000, () => {});
      return {
        createState: () => ({ bytes: 0 }),
        responseChunk(_x, chunk, state) {
          state.bytes += chunk.length;
        },
        stop: () => timer[Symbol.dispose](),
      };
    },
  });
  const findings = await judge(plugin);
  assert.deepEqual(
    findings.flatMap(({ rule, problems }) => problems.map((problem) => `${rule}: ${problem}`)),
    [],
  );
  assert.deepEqual(
    findings.map(({ rule }) => rule),
    ruleNames,
  );
});

test("the threads of the rule share memory, and the instances that run receive the messages of each other", async () => {
  const received = new Set<string>();
  const plugin = defineSurface({
    name: "sharing-surface",
    description: "Counts requests in all threads.",
    start(_, { threads }) {
      const count = new Int32Array(threads?.memory("count", 4) ?? new SharedArrayBuffer(4));
      let state = "running";
      const receiving = threads?.receive("asked", (_value, from) => {
        received.add(`${from} to ${threads.index}, ${state}`);
      });
      return {
        answer() {
          threads?.send("asked", undefined);
          return { status: 200, body: String(Atomics.add(count, 0, 1)) };
        },
        stop() {
          state = "stopped";
          receiving?.[Symbol.dispose]();
        },
      };
    },
  });
  assert.deepEqual(await judge(plugin, { only: ["threads"] }), [{ rule: "threads", problems: [] }]);
  const expected = ["1 to 0", "1 to 2", "2 to 0", "2 to 1"].map((each) => `${each}, running`);
  assert.deepEqual(received, new Set(expected));
});
