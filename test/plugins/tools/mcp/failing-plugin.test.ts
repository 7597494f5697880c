/**
 * A plugin of kind `tools` that throws, rejects or breaks its contract affects only its own call, even in a batch with
 * other calls. Tools that hang are tested in test/plugins/tools/tool-catalogue/tool-run.test.ts, and documents and
 * prompts that hang in time-limit.test.ts.
 */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { ask, startMcpGateway, type Parsed } from "../../../e2e/mcp-gateway.ts";
import { failures } from "./broken-tools.ts";

let gateway: TestGateway;
before(async () => {
  const tools = { name: "broken-tools", file: "../plugins/tools/mcp/broken-tools.ts" };
  gateway = await startMcpGateway({ tools });
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
