/** The ledger tools with a real runtime: what agents read from it, and an extrinsic that they submit. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ApiPromise, HttpProvider, Keyring } from "@polkadot/api";
import { resultOf } from "../plugins/ledger/demo/rpc-client.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { startToolsGateway, type Called, type ToolsGateway } from "./ledger-tools-node.ts";

const alice = "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5";
const bob = "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty";
const unknownHash = `0x${"9".repeat(64)}`;
const amount = 1_000_000_000_000n;

interface Account {
  readonly nonce: number;
  readonly data: { readonly free: string };
}

describe("the tools with chopsticks", { skip: withoutSpecs }, () => {
  let chain: Chopsticks;
  let api: ApiPromise;
  let tools: ToolsGateway;

  before(async () => {
    chain = await startChopsticks();
    api = await ApiPromise.create({ provider: new HttpProvider(chain.url), noInitWarn: true });
    tools = await startToolsGateway(chain.url);
  });
  after(async () => {
    await tools?.[Symbol.asyncDispose]();
    await api?.disconnect();
    await chain?.[Symbol.asyncDispose]();
  });

  const submit = (params: object): Promise<Called> => tools.call("ledger_submitExtrinsic", params);
  const account = async (address: string): Promise<Account> =>
    (await tools.ask("ledger_getAccount", { address })) as Account;
  const transfer = async (nonce: number): Promise<string> => {
    const signer = new Keyring({ type: "sr25519" }).addFromUri("//Alice");
    const call = api.tx["balances"]?.["transferKeepAlive"]?.(bob, amount);
    assert(call !== undefined);
    return (await call.signAsync(signer, { nonce })).toHex();
  };

  it("report an unknown hash as an unknown block, although the node answers with its genesis block", async () => {
    for (const [tool, params] of [
      ["ledger_getBlock", { hash: unknownHash }],
      ["ledger_getBlock", { height: 4_000_000 }],
      ["ledger_getBlockDecoded", { hash: unknownHash }],
      ["ledger_getEvents", { blockHash: unknownHash }],
      ["ledger_getAccount", { address: alice, blockHash: unknownHash }],
      ["ledger_getStorage", { key: "0x00", blockHash: unknownHash }],
      ["ledger_queryStorage", { keys: ["0x00"], blockHash: unknownHash }],
    ] as const) {
      const { error } = await tools.call(tool, params);
      assert.equal(error?.data.errorCode, "GATEWAY_NOT_FOUND", tool);
    }
  });

  it("submit an extrinsic once it is confirmed, and find it in the next block", async () => {
    const [alicesBefore, bobsBefore] = [await account(alice), await account(bob)];
    const extrinsic = await transfer(0);
    const asked = await submit({ extrinsic });
    assert.equal(asked.status, 202);
    assert.equal(asked.error?.data.errorCode, "GATEWAY_CONFIRMATION_REQUIRED");
    const { confirmation_token, summary } = asked.error.data.details ?? {};
    assert.deepEqual(summary, {
      pallet: "Balances",
      method: "transfer_keep_alive",
      signer: alice,
      args: {
        dest: { Id: "14E5nqKAp3oAJcmzgZhUD2RcptBeUBScxKHgJKU4HPNcKVf3" },
        value: String(amount),
      },
    });
    assert.deepEqual(await resultOf(chain.url, "author_pendingExtrinsics"), []);

    const done = await submit({ extrinsic, confirmation_token });
    assert.equal(done.status, 200);
    assert.equal(done.result?.usedCUMilli, 10_000);
    const { hash } = done.result.content as { hash: string };
    assert.match(hash, /^0x[0-9a-f]{64}$/);
    assert.deepEqual(await resultOf(chain.url, "author_pendingExtrinsics"), [extrinsic]);

    const blockHash = await chain.newBlock();
    const { decodedExtrinsics } = (await tools.ask("ledger_getBlockDecoded", {
      hash: blockHash,
    })) as { decodedExtrinsics: { pallet: string; method: string; isSigned: boolean }[] };
    const { pallet, method, isSigned } = decodedExtrinsics.at(-1) ?? {};
    assert.deepEqual([pallet, method, isSigned], ["Balances", "transfer_keep_alive", true]);
    const events = (await tools.ask("ledger_getEvents", { blockHash })) as {
      pallet: string;
      event: string;
    }[];
    assert(events.some(({ pallet: of, event }) => of === "Balances" && event === "Transfer"));

    const [alices, bobs] = [await account(alice), await account(bob)];
    assert.deepEqual([alices.nonce, bobs.nonce], [1, 0]);
    assert.equal(BigInt(bobs.data.free) - BigInt(bobsBefore.data.free), amount);
    assert(BigInt(alicesBefore.data.free) - BigInt(alices.data.free) > amount);
  });

  it("report that the node refused an extrinsic, without the node's message", async () => {
    const extrinsic = await transfer(0);
    const { confirmation_token } = (await submit({ extrinsic })).error?.data.details ?? {};
    const stale = await submit({ extrinsic, confirmation_token });
    assert.equal(stale.error?.data.errorCode, "GATEWAY_TOOL_EXECUTION_ERROR");
    assert.equal(stale.error.message, "the node refused the extrinsic");
  });

  it("do not ask to confirm bytes that are not an extrinsic of this runtime", async () => {
    const extrinsic = await transfer(1);
    for (const bad of ["0x", "0x00", "0xffffffff", extrinsic.slice(0, -2), `${extrinsic}00`]) {
      const { error } = await submit({ extrinsic: bad });
      assert.equal(error?.data.errorCode, "GATEWAY_INVALID_PARAMS", bad);
    }
  });

  it("submit nothing through the whitelist", async () => {
    const extrinsic = await transfer(1);
    const input = { method: "author_submitExtrinsic", params: [extrinsic] };
    const { error } = await tools.call("ledger_rpc", input);
    assert.equal(error?.data.errorCode, "GATEWAY_INVALID_PARAMS");
    assert.deepEqual(await resultOf(chain.url, "author_pendingExtrinsics"), []);
  });
});
