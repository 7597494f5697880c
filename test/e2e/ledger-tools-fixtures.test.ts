/**
 * The ledger tools end to end with recorded chains: the whole pipeline, the decoder, and a node that answers from the
 * recording.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  chainSets,
  expectedBlocks,
  recordedChain,
  startRecordedNode,
  startToolsGateway,
  withoutFixtures,
  type ExpectedBlock,
} from "./ledger-tools-node.ts";

const unknownHash = `0x${"9".repeat(64)}`;

function eventsOf({ events }: ExpectedBlock): unknown[] {
  return events.map(({ index, phase, extrinsicIndex, palletName, event, data }) => ({
    index,
    phase: extrinsicIndex === undefined ? phase : `${phase}(${extrinsicIndex})`,
    pallet: palletName,
    event,
    data,
  }));
}

/** The arguments are the last bytes of their extrinsic. */
function argsOf(args: string | { readonly length: number }, raw = "0x"): string {
  return typeof args === "string" ? args : `0x${raw.slice(raw.length - 2 * args.length)}`;
}

for (const set of chainSets) {
  describe(`the tools with ${set}`, { skip: withoutFixtures }, () => {
    it("decode every block as @polkadot/types does, byte for byte, by height and by hash", async () => {
      await using node = await startRecordedNode(set);
      await using tools = await startToolsGateway(node.url);
      const { blocks } = recordedChain(set);
      for (const expected of expectedBlocks(set)) {
        const recorded = blocks.find(({ number }) => number === expected.number);
        assert(recorded !== undefined);
        const { header, extrinsics } = recorded.block.block;
        const decodedExtrinsics = expected.decodedExtrinsics.map(
          ({ index, palletName, methodName, args, isSigned }) => ({
            index,
            pallet: palletName,
            method: methodName,
            args: argsOf(args, extrinsics[index]),
            isSigned,
            raw: extrinsics[index],
          }),
        );
        const block = { header, extrinsics };
        const events = eventsOf(expected);
        const { hash } = recorded;
        const whole = { block, decodedExtrinsics, events };
        assert.deepEqual(await tools.ask("ledger_getBlockDecoded", { hash }), whole);
        const byHeight = await tools.ask("ledger_getBlockDecoded", { height: expected.number });
        assert.deepEqual(byHeight, whole);
        assert.deepEqual(await tools.ask("ledger_getBlock", { hash }), { block });
        assert.deepEqual(await tools.ask("ledger_getEvents", { blockHash: hash }), events);
      }
    });

    it("read genesis, accounts of any prefix at any block, and storage", async () => {
      await using node = await startRecordedNode(set);
      await using tools = await startToolsGateway(node.url);
      const { blocks, accounts, keys, genesisHash } = recordedChain(set);
      const genesis = await tools.ask("ledger_getBlock", { hash: genesisHash });
      assert.deepEqual(genesis, await tools.ask("ledger_getBlock", { height: 0 }));
      assert.deepEqual(await tools.ask("ledger_getEvents", { blockHash: genesisHash }), []);

      for (const { hash, accounts: states = {} } of blocks) {
        for (const [name, state] of Object.entries(states)) {
          const { ss58_42 = "", ss58_chain = "" } = accounts[name] ?? {};
          for (const address of new Set([ss58_42, ss58_chain])) {
            const account = await tools.ask("ledger_getAccount", { address, blockHash: hash });
            assert.deepEqual(account, accountIn(state));
          }
        }
        const names = Object.keys(keys["System.Account"]);
        const wanted = names.map((name) => keys["System.Account"][name] ?? "");
        assert.deepEqual(
          await tools.ask("ledger_queryStorage", { keys: wanted, blockHash: hash }),
          {
            items: names.map((name, index) => ({
              key: wanted[index],
              value: states[name] ?? null,
            })),
            blockHash: hash,
          },
        );
        const [key = ""] = wanted;
        const value = states["Alice"] ?? null;
        const stored = await tools.ask("ledger_getStorage", { key, blockHash: hash });
        assert.deepEqual(stored, { key, value });
      }
    });

    it("report an unknown block", async () => {
      await using node = await startRecordedNode(set);
      await using tools = await startToolsGateway(node.url);
      const address = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";
      const calls: readonly (readonly [string, object])[] = [
        ["ledger_getBlock", { height: 1000 }],
        ["ledger_getBlock", { hash: unknownHash }],
        ["ledger_getBlockDecoded", { height: 1000 }],
        ["ledger_getBlockDecoded", { hash: unknownHash }],
        ["ledger_getEvents", { blockHash: unknownHash }],
        ["ledger_getAccount", { address, blockHash: unknownHash }],
        ["ledger_getStorage", { key: "0x00", blockHash: unknownHash }],
        ["ledger_queryStorage", { keys: ["0x00"], blockHash: unknownHash }],
      ];
      for (const [tool, params] of calls) {
        const { error } = await tools.call(tool, params);
        const { code, data } = error ?? {};
        assert.deepEqual([code, data?.errorCode], [-32004, "GATEWAY_NOT_FOUND"], tool);
      }
    });

    it("return names, health and statistics", async () => {
      await using node = await startRecordedNode(set);
      await using tools = await startToolsGateway(node.url);
      const chain = recordedChain(set);
      const head = chain.blocks.at(-1);
      const health = await tools.ask("ledger_getHealth", {});
      assert.deepEqual(health, chain["system_health"]);
      assert.deepEqual(await tools.ask("ledger_getNodeInfo", {}), {
        chain: chain["system_chain"],
        name: chain["system_name"],
        version: chain["system_version"],
      });
      const properties = chain["system_properties"] as Readonly<Record<string, unknown>>;
      assert.deepEqual(await tools.ask("ledger_getChainStats", {}), {
        chain: chain["system_chain"],
        chainType: chain["system_chainType"],
        finalizedHash: head?.hash,
        finalizedNumber: head?.number,
        latestNumber: head?.number,
        health,
        properties: { tokenDecimals: 0, tokenSymbol: "", isEthereum: false, ...properties },
      });
    });
  });
}

/** `System.Account`: four u32, then u128s if the chain has balances, here free, reserved, frozen (and flags). */
function accountIn(state: string | null): unknown {
  const bytes = Buffer.from((state ?? "").slice(2).padEnd(160, "0"), "hex");
  const balance = (index: number): string => {
    const at = 16 + index * 16;
    return String(bytes.readBigUInt64LE(at) + (bytes.readBigUInt64LE(at + 8) << 64n));
  };
  return {
    nonce: bytes.readUInt32LE(0),
    consumers: bytes.readUInt32LE(4),
    providers: bytes.readUInt32LE(8),
    sufficients: bytes.readUInt32LE(12),
    data: {
      free: balance(0),
      reserved: balance(1),
      miscFrozen: balance(2),
      feeFrozen: balance(2),
    },
  };
}

describe("a block that upgrades the runtime", { skip: withoutFixtures }, () => {
  it("is decoded with the old runtime, and the block after it with the new one", async () => {
    await using node = await startRecordedNode("midnight-stub");
    await using tools = await startToolsGateway(node.url);
    const namesAt = async (height: number): Promise<readonly string[]> => {
      const { decodedExtrinsics, events } = (await tools.ask("ledger_getBlockDecoded", {
        height,
      })) as {
        decodedExtrinsics: { pallet: string; method: string }[];
        events: { pallet: string; event: string }[];
      };
      return [
        ...decodedExtrinsics.map(({ pallet, method }) => `${pallet}.${method}`),
        ...events.map(({ pallet, event }) => `${pallet}.${event}`),
      ];
    };
    const upgrade = await namesAt(8);
    for (const name of ["Timestamp.set", "Sudo.sudo", "System.CodeUpdated"]) {
      assert(upgrade.includes(name), `${name} is not among ${upgrade.join()}`);
    }
    for (const names of [upgrade, await namesAt(9), await namesAt(10)]) {
      assert(names.includes("System.ExtrinsicSuccess"), names.join());
      assert(!names.includes("unknown.unknown"), names.join());
    }
  });
});

describe("the tools with a node that answers incorrectly", { skip: withoutFixtures }, () => {
  it("fail without the node's text and without a charge", async () => {
    await using node = await startRecordedNode("polkadot-coretime", {
      system_properties: () => "secret",
      state_getMetadata: () => "0x6d6574610e00secret",
    });
    await using tools = await startToolsGateway(node.url);
    for (const [tool, params] of [
      ["ledger_getChainStats", {}],
      ["ledger_getBlockDecoded", { height: 3 }],
      ["ledger_rpc", { method: "grandpa_roundState" }],
    ] as const) {
      const { status, error } = await tools.call(tool, params);
      assert.equal(status, 200);
      assert.equal(error?.code, -32603);
      assert.equal(error.data.errorCode, "GATEWAY_TOOL_EXECUTION_ERROR");
      assert(!JSON.stringify(error).includes("secret"));
    }
  });

  it("run in a batch, and are charged separately", async () => {
    await using node = await startRecordedNode("polkadot-coretime");
    await using tools = await startToolsGateway(node.url);
    const calls = [
      { tool: "ledger_getHealth", params: {} },
      { tool: "ledger_getBlock", params: { height: 1000 } },
      { tool: "ledger_queryStorage", params: { keys: ["0x00", "0x01"] } },
    ];
    const { result } = await tools.call("gateway_batch", { calls });
    assert.equal(result?.usedCUMilli, 500);
    const items = result.content as { tool: string; usedCUMilli: number }[];
    assert.deepEqual(
      items.map(({ tool, usedCUMilli }) => [tool, usedCUMilli]),
      [
        ["ledger_getHealth", 100],
        ["ledger_getBlock", 0],
        ["ledger_queryStorage", 400],
      ],
    );
  });
});
