/** Tests of the algorithms of the cache: which answers it may keep for ever, how many, and what it evicts first. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as fc from "fast-check";
import { AnswerCache } from "../../../../plugins/ledger/ledger/cache.ts";
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
const hash2 = `"${hash(2)}"`;
const block = (number: string): string =>
  `{"block":{"header":{"parentHash":${at},"number":"${number}"},"extrinsics":["0x00"]},"justifications":null}`;

/** Calls as `method params`, one per line. */
function each(lines: string, wanted: boolean, result: string, finalized?: number): void {
  for (const line of lines.trim().split("\n")) {
    const [, name = "", params = ""] = /^\s*(\w+) ?(.*)$/.exec(line) ?? [];
    assert.equal(immutable(name, params, result, finalized), wanted, line);
  }
}

describe("an answer pinned by a block hash", () => {
  it("is immutable if the hash is at the method's own index", () => {
    const calls = `
      state_getStorage ["0x26aa",${at}]
      state_getStorageAt [ "0x26aa" , ${at} ]
      state_getStorageHash ["0x26aa",${at}]
      state_getKeysPaged ["0x",10,null,${at}]
      state_queryStorageAt [[${hash2},"0x01"],${at}]
      state_call ["Core_version","0x",${at}]
      state_getMetadata [${at}]
      state_getRuntimeVersion [${at}]
      chain_getRuntimeVersion [${at}]
      chain_getHeader [${at}]
      childstate_getStorage ["0x00","0x01",${at}]
      childstate_getKeysPaged ["0x00","0x",1,null,${at}]
      mmr_root [${at}]
      archive_v1_body [${at}]
      ledger_contractState ["00ff",${at}]
      ledger_zswapStateRoot [${at}]
      ledger_ledgerVersion [${at}]`;
    each(calls, true, '"0x01"');
    each(calls, false, "null");
  });

  it("is not immutable if a storage key of 32 bytes only looks like a hash", () => {
    const calls = `
      state_getStorage [${hash2}]
      state_getStorage [${hash2},null]
      state_getKeysPaged [${hash2},10,${hash2}]
      state_queryStorageAt [[${hash2}]]
      state_call ["x",${hash2}]`;
    each(calls, false, '"0x01"');
  });

  it("is not immutable if the hash is missing, null or not a hash, or if the params are named", () => {
    const digits = hash(1).slice(2);
    const last = ["null", `"${digits}"`, `"0x${digits}0"`, `"0x${digits.slice(1)}"`, `[${at}]`];
    last.push(`"0x${digits.slice(1)}g"`, `"\\u0030x${digits}"`);
    const params = ["", "[]", "[null]", '["0x26aa"]', `{"key":"0x26aa","hash":${at}}`];
    for (const text of [...params, ...last.map((one) => `["0x26aa",${one}]`)])
      assert.equal(immutable("state_getStorage", text, '"0x01"'), false, text);
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
    const params = ["[17]", '["0x11"]', "[[1,2]]", "[]", "", "[null]", "[1.0]", "[-1]", "[1e1]"];
    for (const text of [...params, '["16"]', "[true]"])
      assert.equal(immutable("chain_getBlockHash", text, at, 16), false, text);
    assert.equal(immutable("chain_getBlockHash", "[1]", at), false);
  });

  it("is not immutable if there is none", () => {
    assert.equal(immutable("chain_getBlockHash", "[1]", "null", 16), false);
    assert.equal(immutable("archive_v1_hashByHeight", "[1]", "[]", 16), false);
  });
});

describe("other answers", () => {
  it("are cached if they are constants and were requested without params", () => {
    const names = "system_chain system_properties archive_v1_genesisHash ledger_apiVersions";
    for (const name of names.split(" ")) {
      for (const params of ["[]", ""]) assert.equal(immutable(name, params, '"x"'), true, name);
      for (const params of ["[1]", "{}"]) assert.equal(immutable(name, params, '"x"'), false, name);
    }
  });

  it("are not cached if they follow the chain, include the pool or write", () => {
    const names =
      "system_health chain_getFinalizedHead chain_getHead system_accountNextIndex account_nextIndex " +
      "system_dryRunAt author_pendingExtrinsics custom_write grandpa_proveFinality mmr_generateProof " +
      "sidechain_getEpochCommittee archive_v1_call state_queryStorage";
    for (const name of names.split(" "))
      assert.equal(immutable(name, `[${at},${at},${at}]`, '"x"', 99), false, name);
  });
});

const hundred = "x".repeat(100);

describe("the cache", () => {
  it("keeps its own copy of bytes", () => {
    const cache = new AnswerCache(10_000);
    const bytes = Buffer.from("abc");
    cache.set(cache.answersOf("a"), "[]", bytes);
    bytes.fill("#");
    assert.equal(String(cache.get(cache.answersOf("a"), "[]")), "abc");
  });

  it("stores nothing with a size of 0, and nothing larger than a quarter of the cache", () => {
    const none = new AnswerCache(0);
    assert.equal(none.set(none.answersOf("a"), "[]", ""), false);
    const cache = new AnswerCache(8000);
    assert.equal(cache.set(cache.answersOf("a"), "[1]", "x".repeat(2000)), false);
    assert.equal(cache.set(cache.answersOf("a"), "[2]", "x".repeat(1000)), true);
    assert.equal(cache.entries, 1);
  });

  it("counts keys, and two bytes per character for text that is not latin1", () => {
    const cache = new AnswerCache(100_000);
    const answers = cache.answersOf("a");
    cache.set(answers, "[1]", hundred);
    const small = cache.bytes;
    cache.set(answers, `["${hundred}"]`, hundred);
    assert(cache.bytes >= 2 * small + 100);
    const before = cache.bytes;
    cache.set(answers, "[2]", "✓".repeat(100));
    assert(cache.bytes - before >= small + 100);
  });

  it("evicts entries without hits before entries with hits", () => {
    const cache = new AnswerCache(4000);
    const answers = cache.answersOf("a");
    for (let i = 0; i < 10; i++) cache.set(answers, `[${i}]`, hundred);
    assert.equal(cache.evictions, 0);
    for (const i of [0, 3]) assert.equal(cache.get(answers, `[${i}]`), hundred);
    for (let i = 10; i < 18; i++) cache.set(answers, `[${i}]`, hundred);
    assert(cache.evictions > 0);
    assert.equal(cache.get(answers, "[0]"), hundred);
    assert.equal(cache.get(answers, "[3]"), hundred);
    assert.equal(cache.get(answers, "[1]"), undefined);
    assert.equal(cache.get(answers, "[2]"), undefined);
  });

  it("never exceeds its size, and never returns a wrong answer", () => {
    const action = fc.record({
      kind: fc.constantFrom("set", "get", "clear"),
      answers: fc.constantFrom("a", "b"),
      key: fc.nat({ max: 30 }),
      size: fc.nat({ max: 700 }),
      bytes: fc.boolean(),
    });
    const rare = fc.array(
      action.filter(({ kind, key }) => kind !== "clear" || key === 0),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(rare, (actions) => {
        const cache = new AnswerCache(3000);
        const kept = new Map<string, string>();
        for (const { kind, answers: name, key, size, bytes } of actions) {
          const answers = cache.answersOf(name);
          const text = String(key).repeat(size);
          const id = `${name} ${key}`;
          if (kind === "clear") cache.clear();
          else if (kind === "get") {
            const found = cache.get(answers, String(key));
            if (found !== undefined) assert.equal(String(found), kept.get(id));
          } else if (cache.set(answers, String(key), bytes ? Buffer.from(text) : text))
            kept.set(id, text);
          assert(cache.bytes >= 0 && cache.bytes <= 3000);
          assert.equal(cache.entries, cache.answersOf("a").size + cache.answersOf("b").size);
        }
      }),
      { numRuns: 500 },
    );
  });
});
