/** Invalid inputs of the ledger tools, one for every way in which they can be invalid. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toolCaller } from "../../tools/tool-catalogue/caller.ts";
import { scriptedTools } from "./chain.ts";
import { wrongLedgerInputs } from "../../wrong-inputs.ts";

describe("an invalid input", async () => {
  const tools = await scriptedTools({ options: { write: true } });
  for (const { tool, input, code, where } of wrongLedgerInputs) {
    it(`${tool} ${text(input)} gets ${code} at "${where}", without a charge`, async () => {
      const caller = toolCaller();
      const outcome = await tools.call(tool, input, caller);
      assert(!outcome.ok);
      assert.equal(outcome.code, code);
      if (code === "GATEWAY_SCHEMA_VIOLATION") {
        const violations = outcome.details?.["violations"] as { path: string; reason: string }[];
        assert.equal(violations[0]?.path, where);
        assert.notEqual(violations[0]?.reason, "");
      } else {
        assert(outcome.message.startsWith(where), outcome.message);
      }
      assert.deepEqual(caller.charged, []);
      assert.equal(caller.open(), 0);
      assert.deepEqual(tools.asked, [], "no node is asked");
    });
  }
});

function text(input: unknown): string {
  const json = JSON.stringify(input) ?? "undefined";
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}

describe("unknown members", () => {
  it("are ignored unless the specification forbids them", async () => {
    const tools = await scriptedTools({ node: { state_getStorage: '"0x01"' } });
    const outcome = await tools.call("ledger_getStorage", { key: "0x12", note: "mine" });
    assert.equal(outcome.ok, true);
  });
});

describe("a key without the capability", () => {
  it("cannot call any tool", async () => {
    const tools = await scriptedTools({ options: { write: true } });
    for (const { name, write } of tools.catalogue.list) {
      const capabilities = write ? (["ledger:read"] as const) : (["ledger:write"] as const);
      const outcome = await tools.call(name, {}, toolCaller({ capabilities }));
      assert.equal(outcome.ok ? "ok" : outcome.code, "GATEWAY_PERMISSION_DENIED", name);
    }
    assert.deepEqual(tools.asked, []);
  });
});
