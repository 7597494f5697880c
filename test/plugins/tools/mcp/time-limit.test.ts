import assert from "node:assert/strict";
import { test } from "node:test";
import type { McpCall } from "../../../../plugins/tools/mcp/mcp-call.ts";
import { getPrompt } from "../../../../plugins/tools/mcp/prompts.ts";
import { readResource } from "../../../../plugins/tools/mcp/resources.ts";
import { manualClock, type ManualClock } from "../../../../src/testing/clock.ts";

const hangs = (): Promise<never> => new Promise(() => {});
const source = { name: "slow", description: "", mimeType: "text/plain", read: hangs };

/** Returns a call by a key without capabilities, on a server whose only prompt and resource never answer. */
function callAt(clock: ManualClock, logged: object[]): McpCall {
  const log = { error: (fields: object) => logged.push(fields) };
  const tools = { prompts: [{ name: "slow", description: "", get: hangs }], resourceTemplates: [] };
  const server = { clock, host: { log }, tools, resources: new Map([["docs://slow", source]]) };
  const x = { peek: () => "r1" };
  // No other member of a call is used.
  return { server, x, principal: { key: { capabilities: new Set() } } } as unknown as McpCall;
}

for (const [what, ask] of [
  ["prompt", (call: McpCall) => getPrompt(call, { name: "slow" }, undefined)],
  ["document", (call: McpCall) => readResource(call, { uri: "docs://slow" }, -32002)],
] as const) {
  test(`a ${what} that does not answer within 30 s returns -32603 and is logged`, async () => {
    const clock = manualClock();
    const logged: object[] = [];
    const answer = ask(callAt(clock, logged));
    clock.advance(29_999);
    assert.deepEqual(logged, []);
    clock.advance(1);
    assert.deepEqual(await answer, {
      ok: false,
      failure: { code: -32603, message: "Internal error" },
    });
    assert.equal(logged.length, 1);
    assert.partialDeepStrictEqual(logged[0], { requestId: "r1" });
  });
}
