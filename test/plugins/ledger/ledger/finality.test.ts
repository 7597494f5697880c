/** Which answers may be cached for ever. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isImmutable } from "../../../../plugins/ledger/ledger/finality.ts";
import { createWhitelist } from "../../../../plugins/ledger/ledger/whitelist.ts";
import { hash } from "./fixture.ts";

const methods = createWhitelist({
  aliases: {},
  methods: { system_health: {}, custom_write: {} },
});

function immutable(
  name: string,
  params: string,
  result: string | Buffer,
  finalized?: number,
): boolean {
  const method = methods.get(name);
  assert(method !== undefined, name);
  return isImmutable(method, params, result, finalized);
}

const at = `"${hash(1)}"`;
const key = `"${hash(2)}"`;
const block = (number: string): string =>
  `{"block":{"header":{"parentHash":${at},"number":"${number}"},"extrinsics":["0x00"]},"justifications":null}`;

describe("an answer pinned by a block hash", () => {
  it("is immutable if the hash is at the method's own index", () => {
    const calls: [string, string][] = [
      ["state_getStorage", `["0x26aa",${at}]`],
      ["state_getStorageAt", `[ "0x26aa" , ${at} ]`],
      ["state_getStorageHash", `["0x26aa",${at}]`],
      ["state_getKeysPaged", `["0x",10,null,${at}]`],
      ["state_queryStorageAt", `[[${key},"0x01"],${at}]`],
      ["state_call", `["Core_version","0x",${at}]`],
      ["state_getMetadata", `[${at}]`],
      ["state_getRuntimeVersion", `[${at}]`],
      ["chain_getRuntimeVersion", `[${at}]`],
      ["chain_getHeader", `[${at}]`],
      ["childstate_getStorage", `["0x00","0x01",${at}]`],
      ["childstate_getKeysPaged", `["0x00","0x",1,null,${at}]`],
      ["mmr_root", `[${at}]`],
      ["archive_v1_body", `[${at}]`],
      ["ledger_contractState", `["00ff",${at}]`],
      ["ledger_zswapStateRoot", `[${at}]`],
      ["ledger_ledgerVersion", `[${at}]`],
    ];
    for (const [name, params] of calls) assert(immutable(name, params, '"0x01"'), name);
  });

  it("is not immutable if a storage key of 32 bytes only looks like a hash", () => {
    assert.equal(immutable("state_getStorage", `[${key}]`, '"0x01"'), false);
    assert.equal(immutable("state_getStorage", `[${key},null]`, '"0x01"'), false);
    assert.equal(immutable("state_getKeysPaged", `[${key},10,${key}]`, '"0x01"'), false);
    assert.equal(immutable("state_queryStorageAt", `[[${key}]]`, "[]"), false);
    assert.equal(immutable("state_call", `["x",${key}]`, '"0x01"'), false);
  });

  it("is not immutable if the hash is missing, null or not a hash, or if the params are named", () => {
    const params = [
      "",
      "[]",
      "[null]",
      `["0x26aa"]`,
      `["0x26aa",null]`,
      `["0x26aa","${hash(1).slice(2)}"]`,
      `["0x26aa","${hash(1)}0"]`,
      `["0x26aa","${hash(1).slice(0, -1)}"]`,
      `["0x26aa","${hash(1).slice(0, -1)}g"]`,
      `["0x26aa","\\u0030x${hash(1).slice(2)}"]`,
      `["0x26aa",[${at}]]`,
      `{"key":"0x26aa","hash":${at}}`,
    ];
    for (const text of params)
      assert.equal(immutable("state_getStorage", text, '"0x01"'), false, text);
  });

  it("is not immutable if it is null", () => {
    assert.equal(immutable("state_getStorage", `["0x26aa",${at}]`, "null"), false);
    assert.equal(immutable("chain_getHeader", `[${at}]`, "null"), false);
  });
});

describe("a block by its hash", () => {
  it("is immutable once it is finalized", () => {
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x10"), 16), true);
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x10"), 17), true);
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x00000010"), 16), true);
    assert.equal(immutable("chain_getBlock", `[${at}]`, Buffer.from(block("0x10")), 16), true);
  });

  it("is not immutable before that, or while the finalized block is unknown", () => {
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x11"), 16), false);
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x10")), false);
  });

  it("is not immutable if its number cannot be read, or if no hash was requested", () => {
    assert.equal(immutable("chain_getBlock", `[${at}]`, '{"block":{}}', 16), false);
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0x"), 16), false);
    assert.equal(immutable("chain_getBlock", `[${at}]`, block("0xffffffffffffffff"), 16), false);
    assert.equal(immutable("chain_getBlock", "[]", block("0x10"), 16), false);
    assert.equal(immutable("chain_getBlock", "[null]", block("0x10"), 16), false);
  });
});

describe("a hash by its number", () => {
  it("is immutable once that number is finalized, as integer or hexadecimal", () => {
    assert.equal(immutable("chain_getBlockHash", "[16]", at, 16), true);
    assert.equal(immutable("chain_getBlockHash", '["0x10"]', at, 16), true);
    assert.equal(immutable("chain_getBlockHash", "[0]", at, 0), true);
    assert.equal(immutable("archive_v1_hashByHeight", "[16]", `[${at}]`, 16), true);
  });

  it("is not immutable before that, for lists, or without a number", () => {
    for (const params of [
      "[17]",
      '["0x11"]',
      "[[1,2]]",
      "[]",
      "",
      "[null]",
      "[1.0]",
      "[-1]",
      "[1e1]",
      '["16"]',
      "[true]",
    ]) {
      assert.equal(immutable("chain_getBlockHash", params, at, 16), false, params);
    }
    assert.equal(immutable("chain_getBlockHash", "[1]", at), false);
  });

  it("is not immutable if there is none", () => {
    assert.equal(immutable("chain_getBlockHash", "[1]", "null", 16), false);
    assert.equal(immutable("archive_v1_hashByHeight", "[1]", "[]", 16), false);
  });
});

describe("other answers", () => {
  it("are cached if they are constants and were requested without params", () => {
    for (const name of [
      "system_chain",
      "system_properties",
      "archive_v1_genesisHash",
      "ledger_apiVersions",
    ]) {
      assert.equal(immutable(name, "[]", '"x"'), true, name);
      assert.equal(immutable(name, "", '"x"'), true, name);
      assert.equal(immutable(name, "[1]", '"x"'), false, name);
      assert.equal(immutable(name, "{}", '"x"'), false, name);
    }
  });

  it("are not cached if they follow the chain, include the pool or write", () => {
    const names = [
      "system_health",
      "chain_getFinalizedHead",
      "chain_getHead",
      "system_accountNextIndex",
      "account_nextIndex",
      "system_dryRunAt",
      "author_pendingExtrinsics",
      "custom_write",
      "grandpa_proveFinality",
      "mmr_generateProof",
      "sidechain_getEpochCommittee",
      "archive_v1_call",
      "state_queryStorage",
    ];
    for (const name of names)
      assert.equal(immutable(name, `[${at},${at},${at}]`, '"x"', 99), false, name);
  });
});
