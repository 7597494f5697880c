/** A real client, the gateway and a real runtime: @polkadot/api, HttpProvider, chopsticks. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Keyring } from "@polkadot/api";
import { resultOf, call } from "../plugins/ledger/demo/rpc-client.ts";
import { startChopsticks, withoutSpecs, type Chopsticks } from "./chopsticks.ts";
import { connectThroughGateway, notAllowed, type Client } from "./polkadot-api.ts";

const alice = "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY";

let chain: Chopsticks;
let client: Client;
if (withoutSpecs === false) {
  before(async () => {
    chain = await startChopsticks();
    client = await connectThroughGateway(chain.url);
  });
  after(async () => {
    await client?.[Symbol.asyncDispose]();
    await chain?.[Symbol.asyncDispose]();
  });
}
const options = { skip: withoutSpecs };

test("the client connects and finds chain, runtime and constants", options, () => {
  const { api } = client;
  assert.equal(api.runtimeVersion.specName.toString(), "coretime-polkadot");
  assert.equal(api.runtimeVersion.specVersion.toNumber(), 1_003_000);
  assert.equal(api.runtimeChain.toString(), "coretime-polkadot");
  assert.equal(api.registry.chainSS58, 0);
  assert.equal(api.consts.balances.existentialDeposit.toString(), "1000000000");
});

test(
  "storage reads: one value, many values, and every entry of a map over several pages",
  options,
  async () => {
    const { account } = client.api.query.system;
    const funded = "100000000000000000";
    assert.equal(balance(await account(alice)), funded);
    assert.deepEqual((await account.multi([alice, `0x${"11".repeat(32)}`])).map(balance), [
      funded,
      "0",
    ]);

    const found = new Map<string, string>();
    let startKey: string | undefined;
    for (;;) {
      const page = await account.entriesPaged({
        args: [],
        pageSize: 4,
        ...(startKey !== undefined && { startKey }),
      });
      for (const [key, value] of page) found.set(key.args[0].toHex(), balance(value));
      startKey = page.at(-1)?.[0].toHex();
      if (page.length < 4) break;
    }
    assert.equal(found.size, (await account.entries()).length);
    assert.equal([...found.values()].filter((free) => free === funded).length, 6);
  },
);

test(
  "headers and blocks read by hash and by number agree, and so does the state at them",
  options,
  async () => {
    const { api } = client;
    const header = await api.rpc.chain.getHeader();
    const hash = await api.rpc.chain.getBlockHash(header.number.toNumber());
    assert.equal(header.hash.toHex(), hash.toHex());
    const { block } = await api.rpc.chain.getBlock(hash);
    assert.equal(block.header.hash.toHex(), hash.toHex());
    assert.deepEqual(
      block.extrinsics.map(({ method }) => `${method.section}.${method.method}`),
      ["timestamp.set", "parachainSystem.setValidationData"],
    );
    const at = await api.at(hash);
    const timestamp = await at.query.timestamp.now();
    assert.equal(timestamp.toString(), block.extrinsics[0]!.method.args[0]!.toString());
    assert.equal((await api.rpc.chain.getFinalizedHead()).toHex(), hash.toHex());
  },
);

test("runtime calls are answered by the runtime", options, async () => {
  const { api } = client;
  const nonce = await api.call.accountNonceApi.accountNonce(alice);
  assert.equal(nonce.toString(), "0");
  assert.equal((await api.rpc.system.accountNextIndex(alice)).toString(), "0");
  const { partialFee } = await api.tx.system
    .remark("0x1234")
    .paymentInfo(new Keyring({ type: "sr25519" }).addFromUri("//Alice"));
  assert.ok(partialFee.toBigInt() > 0n);
});

test("a block that the node builds meanwhile is seen at once", options, async () => {
  const { api } = client;
  const last = (await api.rpc.chain.getHeader()).number.toNumber();
  await chain.newBlock();
  assert.equal((await api.rpc.chain.getHeader()).number.toNumber(), last + 1);
});

test(
  "a signed extrinsic cannot be submitted, although the node would accept it",
  options,
  async () => {
    const { api } = client;
    const pair = new Keyring({ type: "sr25519" }).addFromUri("//Alice");
    const remark = await api.tx.system.remark("0x12").signAsync(pair);
    // The client believes rpc_methods, which the gateway answers from its own whitelist.
    assert.equal("submitExtrinsic" in api.rpc.author, false);
    const submit = { id: 1, method: "author_submitExtrinsic", params: [remark.toHex()] };
    const { status, json } = await client.send({ jsonrpc: "2.0", ...submit });
    assert.deepEqual({ status, json }, { status: 200, json: notAllowed(1) });
    assert.deepEqual(await resultOf(chain.url, "author_pendingExtrinsics"), []);
    assert.equal((await call(chain.url, submit.method, submit.params)).error, undefined);
  },
);

test("dev_ methods are refused, although the node has them", options, async () => {
  const head = await resultOf(chain.url, "chain_getBlockHash");
  const batch = [
    { jsonrpc: "2.0", id: 1, method: "dev_newBlock", params: [] },
    { jsonrpc: "2.0", id: 2, method: "dev_setStorage", params: [[["0x1234", "0x01"]]] },
    { jsonrpc: "2.0", id: 3, method: "dev_setHead", params: [0] },
  ];
  const { json } = await client.send(batch);
  assert.deepEqual(json, [notAllowed(1), notAllowed(2), notAllowed(3)]);
  assert.equal(await resultOf(chain.url, "chain_getBlockHash"), head);
  assert.equal(await resultOf(chain.url, "state_getStorage", "0x1234"), null);
});

/** The free balance of a `System.Account` value. */
function balance(account: { toJSON(): unknown }): string {
  const { data } = account.toJSON() as { data: { free: string | number } };
  return BigInt(data.free).toString();
}
