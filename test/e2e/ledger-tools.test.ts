/**
 * The ledger tools with recorded chains: the whole pipeline, the decoder, and a node that answers from a recording. And the
 * confirmation of a submission: when a token is valid and when it is not.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { startGateway } from "../../src/gateway/gateway.ts";
import { ask } from "./ask.ts";
import {
  chainSets,
  expectedBlocks,
  recordedChain,
  startRecordedNode,
  startToolsGateway,
  withoutFixtures,
  type Called,
  type ExpectedBlock,
  type ToolsGateway,
} from "./ledger-tools-node.ts";
import type { RpcNode } from "./rpc-node.ts";

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

const hash = `0x${"7".repeat(64)}`;
const tool = "ledger_submitExtrinsic";
const answers = { author_submitExtrinsic: () => hash };

function twoExtrinsics(): readonly [string, string] {
  const signed = recordedChain("westend-dev")
    .blocks.flatMap(({ block }) => block.block.extrinsics)
    .filter((extrinsic) => /^0x.{2,8}84/.test(extrinsic));
  const [first, second] = signed;
  assert(first !== undefined && second !== undefined && first !== second);
  return [first, second];
}

const submissions = ({ calls }: RpcNode): number =>
  calls.filter(({ method }) => method === "author_submitExtrinsic").length;

async function tokenFor(tools: ToolsGateway, extrinsic: string): Promise<unknown> {
  const { status, error } = await tools.call(tool, { extrinsic });
  assert.deepEqual([status, error?.code], [202, -32002]);
  return error?.data.details?.["confirmation_token"];
}

function expired({ status, error }: Called): void {
  assert.deepEqual(
    [status, error?.code, error?.data.errorCode],
    [410, -32003, "GATEWAY_CONFIRMATION_EXPIRED"],
  );
}

describe("a confirmed submission", { skip: withoutFixtures }, () => {
  it("happens once, for the same arguments, with the same key", async () => {
    await using node = await startRecordedNode("westend-dev", answers);
    await using tools = await startToolsGateway(node.url);
    const [extrinsic, another] = twoExtrinsics();
    const confirmation_token = await tokenFor(tools, extrinsic);
    const other = await tools.gateway.issue({ capabilities: ["ledger:read", "ledger:write"] });
    expired(await tools.call(tool, { extrinsic: another, confirmation_token }));
    expired(await tools.call(tool, { extrinsic, confirmation_token }, other.key));
    expired(await tools.call(tool, { extrinsic, confirmation_token: "forged" }));
    assert.equal(submissions(node), 0);
    const done = await tools.call(tool, { confirmation_token, extrinsic });
    assert.deepEqual(done.result, { content: { hash }, usedCUMilli: 10_000 });
    expired(await tools.call(tool, { extrinsic, confirmation_token }));
    assert.equal(submissions(node), 1);
  });

  it("is remembered by a gateway that is restarted on the same store", async () => {
    await using node = await startRecordedNode("westend-dev", answers);
    await using tools = await startToolsGateway(node.url);
    const [extrinsic] = twoExtrinsics();
    const used = await tokenFor(tools, extrinsic);
    const unused = await tokenFor(tools, extrinsic);
    const first = await tools.call(tool, { extrinsic, confirmation_token: used });
    assert.equal(first.status, 200);
    const { gateway, folder, key } = tools.gateway;
    await gateway.stop();

    const again = await startGateway({
      configFile: join(folder, "pipeline.yaml"),
      env: { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data"), NODE_URL: node.url },
      watch: false,
    });
    try {
      const submit = async (confirmation_token: unknown): Promise<number> => {
        const params = { tool, params: { extrinsic, confirmation_token } };
        const body = { jsonrpc: "2.0", id: 1, method: "tools.call", params };
        return (await ask(`${again.url}/rpc`, { key, body })).status;
      };
      assert.deepEqual(
        [await submit(used), await submit(unused), await submit(unused)],
        [410, 200, 410],
      );
      assert.equal(submissions(node), 2);
    } finally {
      await again.stop();
    }
  });
});
