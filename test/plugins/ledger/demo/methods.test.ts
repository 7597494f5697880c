/** The answers of the demo node's methods agree with each other and with one chain of nine blocks. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startDemoNode, type DemoNode } from "../../../../plugins/ledger/demo/node.ts";
import { readRecording } from "../../../../plugins/ledger/demo/recording.ts";
import { resultOf, call, errorOf } from "./rpc-client.ts";

let node: DemoNode;
before(async () => void (node = await startDemoNode()));
after(() => node.close());

const { blocks, storage } = readRecording();
const hashOf = (number: number): string => blocks[number]!.hash;
const head = hashOf(8);
const unknown = `0x${"ab".repeat(32)}`;
const events = "0x26aa394eea5630e07c48ae0c9558cef780d41e5e16056765bc8461851072c9d7";
const accounts = "0x26aa394eea5630e07c48ae0c9558cef7b99d880ec681799c0cf30e8886371da9";
const alice = `${accounts}de1e86a9a8c739864cf3cc5ec2bea59fd43593c715fdd31c61141abd04a99fd6822c8558854ccde39a5684e7a56da27d`;

test("block hashes are found by number, hex number, a list or no argument; above the head the hash is null", async () => {
  assert.equal(await resultOf(node.url, "chain_getBlockHash", 3), hashOf(3));
  assert.equal(await resultOf(node.url, "chain_getBlockHash", "0x3"), hashOf(3));
  assert.deepEqual(await resultOf(node.url, "chain_getBlockHash", [0, "0x1", 99]), [
    hashOf(0),
    hashOf(1),
    null,
  ]);
  assert.equal(await resultOf(node.url, "chain_getBlockHash"), head);
  assert.equal(await resultOf(node.url, "chain_getBlockHash", null), head);
  assert.equal(await resultOf(node.url, "chain_getHead"), head);
  assert.equal(await resultOf(node.url, "chain_getFinalizedHead"), head);
  assert.equal(await resultOf(node.url, "chain_getBlockHash", 9), null);
});

test("the header of the head is that of its block", async () => {
  const header = await resultOf(node.url, "chain_getHeader");
  assert.deepEqual(await resultOf(node.url, "chain_getBlock"), {
    block: { header, extrinsics: blocks[8]!.extrinsics },
    justifications: null,
  });
});

test("an unknown hash returns null, a malformed one -32602", async () => {
  assert.equal(await resultOf(node.url, "chain_getHeader", unknown), null);
  assert.equal(await resultOf(node.url, "chain_getBlock", unknown), null);
  for (const bad of ["0x12", "0xzz", 5, {}]) {
    assert.equal((await errorOf(node.url, "chain_getBlock", bad)).code, -32602);
  }
  for (const bad of ["x", -1, 1.5, 2 ** 32, {}, [true]]) {
    assert.equal((await errorOf(node.url, "chain_getBlockHash", bad)).code, -32602);
  }
});

test("a stored value is that of the named block, or else of the head", async () => {
  assert.equal(await resultOf(node.url, "state_getStorage", events, hashOf(0)), null);
  const first = await resultOf(node.url, "state_getStorage", events, hashOf(1));
  const last = await resultOf(node.url, "state_getStorage", events);
  assert.ok(typeof first === "string" && typeof last === "string" && first !== last);
  assert.equal(await resultOf(node.url, "state_getStorageAt", events, head), last);
  assert.equal(
    await resultOf(node.url, "state_getStorage", events.toUpperCase().replace("X", "x")),
    last,
  );
  assert.equal(await resultOf(node.url, "state_getStorageSize", events), (last.length - 2) / 2);
});

test("the hash of a stored value is its blake2b-256", async () => {
  const empty = Object.entries(storage).find(([, history]) => history[0]?.[1] === "0x00");
  assert.ok(empty);
  assert.equal(
    await resultOf(node.url, "state_getStorageHash", empty[0]),
    "0x03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314",
  );
});

test("the runtime itself has a hash and a size, but its code was not recorded", async () => {
  assert.equal(await resultOf(node.url, "state_getStorage", "0x3a636f6465"), null);
  assert.equal(await resultOf(node.url, "state_getStorageSize", "0x3a636f6465"), 1_054_742);
  assert.match(
    String(await resultOf(node.url, "state_getStorageHash", "0x3a636f6465")),
    /^0x[0-9a-f]{64}$/,
  );
});

test("a missing key returns null, an unknown block 4003, and bad hex -32602", async () => {
  assert.equal(await resultOf(node.url, "state_getStorage", "0x1234"), null);
  assert.equal(await resultOf(node.url, "state_getStorageHash", "0x1234"), null);
  assert.equal(await resultOf(node.url, "state_getStorageSize", "0x1234"), null);
  const { code, message } = await errorOf(node.url, "state_getStorage", events, unknown);
  assert.equal(code, 4003);
  assert.match(message, /UnknownBlock/);
  assert.equal((await errorOf(node.url, "state_getStorage", "0x123")).code, -32602);
  assert.equal((await errorOf(node.url, "state_getStorage")).code, -32602);
});

test("more than 1000 keys in one page is 4002", async () => {
  assert.equal((await errorOf(node.url, "state_getKeysPaged", "0x", 1001)).code, 4002);
});

test("many keys are read at a block, and over a range of blocks", async () => {
  const one = await resultOf(node.url, "state_queryStorageAt", [events, "0x12"], hashOf(2));
  const value = await resultOf(node.url, "state_getStorage", events, hashOf(2));
  assert.deepEqual(one, [
    {
      block: hashOf(2),
      changes: [
        [events, value],
        ["0x12", null],
      ],
    },
  ]);
  const range = await resultOf(node.url, "state_queryStorage", [alice], hashOf(1), hashOf(4));
  assert.ok(Array.isArray(range));
  // Alice's account changed in blocks 3 and 4, not in 2.
  assert.deepEqual(
    range.map(({ block }) => block),
    [hashOf(1), hashOf(3), hashOf(4)],
  );
  assert.equal(
    (await errorOf(node.url, "state_queryStorage", [alice], head, hashOf(1))).code,
    4001,
  );
});

test("metadata and version are returned at every block, but not at an unknown one", async () => {
  assert.match(String(await resultOf(node.url, "state_getMetadata", hashOf(1))), /^0x6d6574610e/);
  const version = await resultOf(node.url, "state_getRuntimeVersion");
  assert.deepEqual(await resultOf(node.url, "chain_getRuntimeVersion", hashOf(1)), version);
  assert.equal((await errorOf(node.url, "state_getMetadata", unknown)).code, 4003);
  assert.equal((await errorOf(node.url, "state_getRuntimeVersion", unknown)).code, 4003);
});

test("recorded runtime calls are answered, others are 4003", async () => {
  assert.equal(
    await resultOf(node.url, "state_call", "Metadata_metadata_versions", "0x"),
    "0x080e0000000f000000",
  );
  assert.equal((await errorOf(node.url, "state_call", "Core_execute_block", "0x")).code, 4003);
  assert.equal((await errorOf(node.url, "state_call", "toString", "0x")).code, 4003);
  assert.equal((await errorOf(node.url, "state_call", "Core_version", "0x", unknown)).code, 4003);
});

test("a nonce is the same from the state, the runtime and the account index", async () => {
  const id = alice.slice(-64);
  assert.equal(
    await resultOf(node.url, "state_call", "AccountNonceApi_account_nonce", `0x${id}`),
    "0x0a000000",
  );
  assert.equal(
    await resultOf(node.url, "state_call", "AccountNonceApi_account_nonce", `0x${id}`, hashOf(3)),
    "0x01000000",
  );
  for (const address of [
    "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY",
    "15oF4uVJwmo4TdGW7VfQxNLavjCXviqxT9S1MgbjMNHr6Sp5",
    // A prefix of two bytes.
    "cEaNSpz4PxFcZ7nT1VEKrKewH67rfx6MfcM6yKojyyPz7qaqp",
  ]) {
    assert.equal(await resultOf(node.url, "system_accountNextIndex", address), 10);
    assert.equal(await resultOf(node.url, "account_nextIndex", address), 10);
  }
  assert.equal(
    (await errorOf(node.url, "state_call", "AccountNonceApi_account_nonce", "0x12")).code,
    -32602,
  );
});

test("an account without a nonce has 0, and an invalid address is answered with -32602", async () => {
  // The account of 32 zero bytes.
  const nobody = "111111111111111111111111111111111HC1";
  assert.equal(await resultOf(node.url, "system_accountNextIndex", nobody), 0);
  for (const bad of [
    "",
    "1",
    "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQZ",
    "0OIl",
    "5".repeat(60),
    7,
  ]) {
    assert.equal(
      (await errorOf(node.url, "system_accountNextIndex", bad)).code,
      -32602,
      String(bad),
    );
  }
});

test("named parameters are accepted by their names", async () => {
  const { result } = await call(node.url, "state_getStorage", { hash: hashOf(2), key: events });
  assert.equal(result, await resultOf(node.url, "state_getStorage", events, hashOf(2)));
});

test("Midnight's methods answer in their own shapes, with the same answer at every block", async () => {
  assert.deepEqual(await resultOf(node.url, "midnight_apiVersions"), [2]);
  assert.match(String(await resultOf(node.url, "midnight_ledgerVersion")), /synthetic/);
  const state = String(await resultOf(node.url, "midnight_contractState", "0aFF", hashOf(2)));
  assert.equal(Buffer.from(state, "hex").toString(), "synthetic state of 0aff at 2");
  const root = await resultOf(node.url, "midnight_zswapStateRoot");
  assert.ok(Array.isArray(root) && root.length === 32);
  assert.deepEqual(await resultOf(node.url, "midnight_zswapStateRoot", head), root);
  for (const params of [["0x12"], ["zz"], ["12", unknown], []]) {
    assert.equal((await errorOf(node.url, "midnight_contractState", ...params)).code, -32602);
  }
  assert.equal((await errorOf(node.url, "midnight_zswapStateRoot", unknown)).code, -32602);
});

test("rpc_methods lists exactly the methods that are answered, and none of them writes or subscribes", async () => {
  const listed = await resultOf(node.url, "rpc_methods");
  assert.ok(listed !== null && typeof listed === "object" && "methods" in listed);
  assert.ok(Array.isArray(listed.methods) && listed.methods.includes("rpc_methods"));
  for (const method of listed.methods) {
    assert.notEqual((await call(node.url, String(method))).error?.code, -32601);
  }
  for (const method of ["author_submitExtrinsic", "state_subscribeStorage", "dev_newBlock"]) {
    assert.equal((await errorOf(node.url, method)).code, -32601);
  }
});

test("health and sync state agree with the head", async () => {
  assert.deepEqual(await resultOf(node.url, "system_health"), {
    peers: 0,
    isSyncing: false,
    shouldHavePeers: false,
  });
  assert.deepEqual(await resultOf(node.url, "system_syncState"), {
    startingBlock: 0,
    currentBlock: 8,
    highestBlock: 8,
  });
  assert.deepEqual(await resultOf(node.url, "author_pendingExtrinsics"), []);
});
