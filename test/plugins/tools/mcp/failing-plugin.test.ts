/** A plugin of kind `tools` that throws, rejects or breaks its contract affects only its own call, even in a batch. */
import assert from "node:assert/strict";
import { subscribe } from "node:diagnostics_channel";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, type Parsed } from "../../../e2e/mcp-gateway.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { failures, hanging } from "./broken-tools.ts";

const clock = manualClock();
let gateway: TestGateway;
before(async () => {
  const tools = { name: "broken-tools", file: "../plugins/tools/mcp/broken-tools.ts" };
  gateway = await startMcpGateway({ tools, clock });
});
after(() => gateway[Symbol.asyncDispose]());

const calls: Readonly<Record<string, (how: string) => object>> = {
  "tools/call": (how) => ({ name: "broken", arguments: { how } }),
  "resources/read": (how) => ({ uri: `broken://${how}` }),
  "prompts/get": (how) => ({ name: "broken", arguments: { how } }),
  "completion/complete": (how) => ({
    ref: { type: "ref/prompt", name: "broken" },
    argument: { name: "how", value: how },
  }),
};

for (const [method, paramsOf] of Object.entries(calls)) {
  for (const how of Object.keys(failures)) {
    test(`${method}: "${how}" affects only its own call`, async () => {
      const good = { method: "tools/call", params: { name: "good", arguments: {} } };
      const bad = { method, params: paramsOf(how) };
      const from = gateway.lines.length;
      const body = [bad, good].map((each, id) => ({ jsonrpc: "2.0", id, ...each }));
      const { status, text, json } = await ask(gateway, { body });
      assert.equal(status, 200, text);
      // The answers may be in another order than the calls.
      const answers = new Map((json as Parsed[]).map((each) => [each.id, each]));
      const { error, result } = answers.get(0);
      assert.ok(error?.code === -32603 || result?.isError === true, text);
      assert.equal(answers.get(1).result?.isError, undefined);
      assert.doesNotMatch(text, /secret/);
      const logged = gateway.lines.slice(from).filter((line) => line.includes(" failed {"));
      assert.equal(logged.length, 1, logged.join("\n"));
    });
  }
}

for (const [what, method] of [
  ["prompt", "prompts/get"],
  ["document", "resources/read"],
] as const) {
  test(`a ${what} that does not answer within 30 s returns -32603 and is logged`, async () => {
    const begun = new Promise((resolve) => subscribe(hanging, resolve));
    const params = calls[method]?.("hangs");
    const from = gateway.lines.length;
    const asked = ask(gateway, { body: { jsonrpc: "2.0", id: 1, method, params } });
    await begun;
    const failed = (): string[] =>
      gateway.lines.slice(from).filter((line) => line.includes(" failed {"));
    clock.advance(29_999);
    await new Promise(setImmediate);
    assert.deepEqual(failed(), []);
    clock.advance(1);
    const { headers, json } = await asked;
    const requestId = `"requestId":"${String(headers["x-request-id"])}"`;
    assert.deepEqual(json.error, { code: -32603, message: "Internal error" });
    assert.equal(failed().length, 1);
    assert.ok(failed()[0]?.includes(requestId));
  });
}
