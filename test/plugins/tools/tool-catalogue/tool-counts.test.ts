/** Tests what the metrics of a plugin contain about the calls of its tools. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { toolFailure, type ToolResult } from "sluice-gateway/services";
import { bench, caller, settled, tool, type Bench } from "./fixture.ts";

/** Returns the values of a metric by its last label, or one value for a metric without a further label. */
function counted({ metrics }: Bench, name: string): Record<string, number> {
  return Object.fromEntries(
    metrics.read(`sluice_plugin_${name}_total`).map(({ labels, value }) => {
      const { plugin, kind, hook, code, reason } = labels;
      assert.deepEqual([plugin, kind, hook], ["acme", "tools", "tool"]);
      // Sums of seconds have rounding errors.
      return [code ?? reason ?? "all", Number(value.toFixed(9))];
    }),
  );
}

test("the calls of all tools of a plugin are counted together, with the time of its code", async () => {
  const answer = Promise.withResolvers<ToolResult>();
  const b = await bench(
    tool({ name: "slow", call: () => answer.promise }),
    tool({
      name: "quick",
      call(input) {
        b.clock.advance(50);
        return { ok: true, value: input };
      },
    }),
  );
  const slow = b.call("slow", {});
  b.clock.advance(2_000);
  await b.call("quick", {});
  answer.resolve({ ok: true, value: 1 });
  assert.equal((await slow).ok, true);
  assert.deepEqual(counted(b, "timed"), { all: 2 });
  assert.deepEqual(counted(b, "seconds"), { all: 2.1 });
  for (const name of ["refusals", "errors", "timeouts"]) assert.deepEqual(counted(b, name), {});
});

test("a tool that throws is counted and timed, and distinguished from one that breaks its contract", async () => {
  const results: (() => unknown)[] = [
    () => Promise.reject(new Error("broken")),
    () => ({ ok: true, value: undefined }),
    () => ({ ok: false, code: "ACME_UNKNOWN", message: "no" }),
  ];
  // The contract does not allow these results. A plugin in JavaScript can return them.
  const b = await bench(tool({ call: () => results.shift()?.() as ToolResult }));
  while (results.length > 0) await b.call("echo", {});
  assert.deepEqual(counted(b, "errors"), { throw: 1, contract: 2 });
  assert.deepEqual(counted(b, "timed"), { all: 3 });
});

test("refusals are counted by code; a call that is refused before the tool runs is not timed", async () => {
  const b = await bench(
    tool({
      call() {
        b.clock.advance(5);
        return toolFailure("GATEWAY_CONFLICT", "taken");
      },
    }),
    tool({ name: "limited", capability: "docs:read" }),
    tool({ name: "strict", inputSchema: { type: "object", required: ["a"] } }),
  );
  await b.call("echo", {});
  await b.call("limited", {});
  await b.call("strict", {});
  await b.call("strict", { a: 1 }, caller({ credit: 0 }));
  assert.deepEqual(counted(b, "refusals"), {
    GATEWAY_CONFLICT: 1,
    GATEWAY_PERMISSION_DENIED: 1,
    GATEWAY_SCHEMA_VIOLATION: 1,
    GATEWAY_CU_LIMIT_EXCEEDED: 1,
  });
  assert.deepEqual(counted(b, "timed"), { all: 1 });
  assert.deepEqual(counted(b, "seconds"), { all: 0.005 });
  assert.deepEqual(counted(b, "errors"), {});
});

test("a tool that exceeds its time limit is counted, and its late result is not", async () => {
  const late = Promise.withResolvers<ToolResult>();
  const b = await bench(tool({ call: () => late.promise }));
  const calling = b.call("echo", {});
  await settled();
  b.clock.advance(30_000);
  const outcome = await calling;
  assert.equal(!outcome.ok && outcome.code, "GATEWAY_TOOL_EXECUTION_ERROR");
  late.resolve({ ok: true, value: 1 });
  await settled();
  assert.deepEqual(counted(b, "timeouts"), { all: 1 });
  assert.deepEqual(counted(b, "timed"), { all: 1 });
  assert.deepEqual(counted(b, "seconds"), { all: 30 });
  assert.deepEqual(counted(b, "errors"), {});
});

test("the summary of a write tool is timed as its code", async () => {
  const summarise = async (): Promise<{ ok: true; summary: object }> => {
    b.clock.advance(40);
    return { ok: true, summary: {} };
  };
  const b = await bench(tool({ write: true, summarise }));
  await b.call("echo", {});
  assert.deepEqual(counted(b, "seconds"), { all: 0.04 });
  assert.deepEqual(counted(b, "refusals"), { GATEWAY_CONFIRMATION_REQUIRED: 1 });
});
