/** Once an answer of the node or the decoder has been requested, a caller of any ledger tool that leaves still pays. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hash } from "../ledger/fixture.ts";
import { toolCaller } from "../../tools/tool-catalogue/caller.ts";
import { decoded, resultOf, scriptedTools, type ToolsScript } from "./chain.ts";
import { address } from "../../wrong-inputs.ts";

const header = `{"parentHash":"${hash(6)}","number":"0x7","stateRoot":"0xaa","extrinsicsRoot":"0xbb","digest":{"logs":[]}}`;
const block = `{"block":{"header":${header},"extrinsics":["0x2804"]},"justifications":null}`;

/** Answers to everything that the tools request. */
const script: ToolsScript = {
  options: { write: true },
  node: {
    chain_getBlockHash: `"${hash(7)}"`,
    chain_getBlock: block,
    chain_getHeader: header,
    chain_getFinalizedHead: `"${hash(7)}"`,
    system_chain: '"Test"',
    system_chainType: '"Live"',
    system_name: '"Node"',
    system_version: '"1"',
    system_health: '{"peers":3,"isSyncing":false,"shouldHavePeers":true}',
    system_properties: '{"tokenDecimals":12,"tokenSymbol":"UNIT"}',
    state_getStorage: '"0x01"',
    state_queryStorageAt: `[{"block":"${hash(7)}","changes":[["0x26","0x01"]]}]`,
    author_submitExtrinsic: `"${hash(1)}"`,
  },
  decoder: {
    extrinsics: decoded("[]"),
    events: decoded("[]"),
    account: decoded('{"nonce":4}'),
    summary: {
      ok: true,
      summary: { pallet: "Balances", method: "transfer", signer: "5Alice", args: {} },
    },
  },
};

const calls: readonly (readonly [tool: string, input: object, costMilliCu: number])[] = [
  ["ledger_getBlock", { height: 7 }, 1000],
  ["ledger_getBlockDecoded", { height: 7 }, 2000],
  ["ledger_getEvents", { blockHash: hash(7) }, 1500],
  ["ledger_getHealth", {}, 100],
  ["ledger_getNodeInfo", {}, 100],
  ["ledger_getChainStats", {}, 500],
  ["ledger_getStorage", { key: "0x26" }, 200],
  ["ledger_queryStorage", { keys: ["0x26"] }, 200],
  ["ledger_getAccount", { address }, 500],
  ["ledger_rpc", { method: "system_chain" }, 1000],
  ["ledger_submitExtrinsic", { extrinsic: "0x0400" }, 10_000],
];

describe("a caller that leaves after the call was sent to the node", () => {
  it("is tested for every tool that calls the node", async () => {
    const { catalogue } = await scriptedTools(script);
    // The gateway itself has the list of methods.
    const asking = catalogue.list.filter(({ name }) => name !== "ledger_listMethods");
    assert.deepEqual(
      asking.map(({ name }) => name),
      calls.map(([tool]) => tool),
    );
  });

  for (const [tool, input, costMilliCu] of calls) {
    it(`pays for ${tool}, which continues to its end`, async () => {
      const leaving = new AbortController();
      let isConfirmed = true;
      const onAsked = (): void => {
        if (isConfirmed) leaving.abort();
      };
      const tools = await scriptedTools({ ...script, onAsked });
      let confirmed = input;
      if (tools.catalogue.list.find(({ name }) => name === tool)?.write === true) {
        isConfirmed = false;
        const first = await tools.call(tool, input);
        const { confirmation_token } = (!first.ok && first.details) || {};
        confirmed = { ...input, confirmation_token };
        isConfirmed = true;
      }
      const caller = toolCaller({ signal: leaving.signal });
      resultOf(await tools.call(tool, confirmed, caller));
      assert.equal(leaving.signal.aborted, true);
      assert.deepEqual(caller.charged, [`${tool} ${costMilliCu}`]);
      assert.equal(caller.open(), 0);
    });
  }
});
