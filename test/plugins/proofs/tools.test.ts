/** The tools for agents: their results name which reads were proved. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, stateless } from "../../e2e/mcp-gateway.ts";
import { startProvedDemo } from "./client/proved-demo.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";
/** `System.Number`. */
const key = "0x26aa394eea5630e07c48ae0c9558cef702a5c1b19ab7a04f536c519aca4983ac";

test("the results of tools name the reads that were proved", async (t) => {
  const { gateway, chain } = await startProvedDemo(t, 8, { proof: "prefer" });
  const call = async (name: string, input: object): Promise<unknown> => {
    const body = stateless("tools/call", { name, arguments: input });
    const { result } = (await ask(gateway, { key: gateway.key, ...body })).json;
    assert.equal(result.isError, undefined, JSON.stringify(result));
    return result._meta.proof;
  };
  const { hash, header, number } = chain.at(7);
  const at = `finalized; block=${hash}`;
  const ofState = `${at}; root=${String(header["stateRoot"])}`;
  const ofBlock = `${at}; root=${String(header["extrinsicsRoot"])}`;
  const storage = { method: "state_getStorage", proof: ofState };
  assert.deepEqual(await call("ledger_getStorage", { key, blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_queryStorage", { keys: [key], blockHash: hash }), [
    { method: "state_queryStorageAt", proof: ofState },
  ]);
  assert.deepEqual(await call("ledger_getAccount", { address: alice, blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_getEvents", { blockHash: hash }), [storage]);
  assert.deepEqual(await call("ledger_getBlock", { height: number }), [
    { method: "chain_getBlockHash", proof: at },
    { method: "chain_getBlock", proof: ofBlock },
  ]);
  assert.deepEqual(await call("ledger_rpc", { method: "system_chain" }), [
    { method: "system_chain", proof: "none; reason=this call cannot be proved" },
  ]);
});
