/** The ledger: where answers come from, and which callers share them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LedgerAnswer } from "sluice-gateway/services";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { HeldBytes } from "../../../../src/memory/held-bytes.ts";
import type { LedgerService } from "../../../../plugins/ledger/ledger/open-ledger.ts";
import { hash, request, testLedger } from "./fixture.ts";

function call(
  ledger: LedgerService,
  name: string,
  params = "",
  options?: { signal: AbortSignal },
): LedgerAnswer | Promise<LedgerAnswer> {
  const method = ledger.methods.get(name);
  assert(method !== undefined, name);
  return ledger.call(method, Buffer.from(params), options);
}

/** The kind and the text of the answer. */
async function answer(waited: LedgerAnswer | Promise<LedgerAnswer>): Promise<readonly string[]> {
  const ended = await waited;
  return ended.kind === "failed" ? ["failed", ended.reason] : [ended.kind, ended.bytes.toString()];
}

const at = `["0x26aa","${hash(1)}"]`;

describe("a call", () => {
  it("states whether it may be retried and whether it is cheap", () => {
    const { ledger, pool } = testLedger({ methods: { custom_write: {} } });
    void call(ledger, "custom_write", '["0x"]');
    void call(ledger, "system_chain");
    void call(ledger, "state_call", "[]");
    assert.deepEqual(
      pool.waiting.map(({ retry, cheap }) => [retry, cheap]),
      [
        [false, false],
        [true, true],
        [true, false],
      ],
    );
  });

  it("ends for a caller that leaves, and continues for the cache and the other callers", async () => {
    const { ledger, pool } = testLedger();
    const leaver = new AbortController();
    const left = call(ledger, "state_getStorage", at, { signal: leaver.signal });
    const stayed = call(ledger, "state_getStorage", at);
    leaver.abort();
    assert.deepEqual(await answer(left), ["failed", "aborted"]);
    pool.result('"0x01"');
    assert.deepEqual(await answer(stayed), ["result", '"0x01"']);
    assert.deepEqual(call(ledger, "state_getStorage", at), {
      kind: "result",
      bytes: Buffer.from('"0x01"'),
    });
  });

  it("of the gateway itself may use known methods that clients may not call, but no other methods", async () => {
    const { ledger, pool } = testLedger({ methods: { state_getMetadata: false } });
    const calls = ["system_health", "state_getMetadata", "author_submitExtrinsic", "system_chain"];
    for (const name of calls) void ledger.call(ledger.internal(name), Buffer.alloc(0));
    assert.deepEqual(
      pool.waiting.map(({ method, retry }) => [method, retry]),
      [
        ["system_health", true],
        ["state_getMetadata", true],
        ["author_submitExtrinsic", false],
        ["system_chain", true],
      ],
    );
    for (const name of calls.slice(0, 3)) {
      assert.equal(ledger.methods.has(name), false);
      const refused = ledger.rpc(Buffer.from(request(name, "[]")));
      assert.equal(refused.costMilliCu, 0);
      assert.match(String(await refused.run()), /Method Not Allowed/);
    }
    assert.throws(() => ledger.internal("author_rotateKeys"), /unknown node method/);
  });

  it("of many calls counts the memory of its answers, and asks for nothing more when the caller holds too much", async () => {
    const test = testLedger({ batchParallel: 1 });
    const mebibyte = 1 << 20;
    const large = (bytes: number): string => `"0x${"ab".repeat(bytes / 2)}"`;
    const calls = [0, 1, 2, 3].map((n) => request("state_getMetadata", `["${hash(n)}"]`));
    const held = new HeldBytes(8 * mebibyte, createMetrics());
    const other = held.hold("key_1", "answer");
    other.resize(2 * mebibyte);
    const caller = {
      clientLeft: false,
      facts: { caller: { id: "key_1", group: "ws_1", burst: 2, isOperator: false } },
    };
    const rpc = test.ledger.rpc(Buffer.from(`[${calls.join(",")}]`));
    const running = rpc.run(caller, held);
    test.pool.result(large(mebibyte));
    assert.ok(held.bytesOf("result") > mebibyte);
    while (test.pool.waiting.length > 0) test.pool.result(large(mebibyte));
    const answers = JSON.parse(Buffer.concat((await running) as Buffer[]).toString()) as {
      error?: object;
    }[];
    assert.deepEqual(
      answers.map(({ error }) => error !== undefined),
      [false, true, true, true],
    );
    assert.equal(test.pool.sent.length, 2);
    assert.equal(held.bytesOf("result"), 0);
  });
});

describe("the cache of a ledger", () => {
  it("answers a repeated immutable call synchronously", async () => {
    const { ledger, pool } = testLedger();
    const first = call(ledger, "state_getStorage", at);
    pool.result('"0x01"');
    await first;
    const again = call(ledger, "state_getStorage", at);
    assert(!(again instanceof Promise));
    assert.deepEqual(await answer(again), ["result", '"0x01"']);
    assert.deepEqual(
      await answer(call(ledger, "state_getStorage", ` [ "0x26aa",\n"${hash(1)}" ]`)),
      ["result", '"0x01"'],
    );
    assert.equal(pool.sent.length, 1);
  });

  it("distinguishes methods, params and upper case", async () => {
    const { ledger, pool } = testLedger();
    const first = call(ledger, "state_getStorage", at);
    pool.result('"0x01"');
    await first;
    void call(ledger, "state_getStorageHash", at);
    void call(ledger, "state_getStorage", at.replace("26aa", "26ab"));
    void call(ledger, "state_getStorage", at.replace("26aa", "26AA"));
    assert.equal(pool.sent.length, 4);
  });

  it("never stores null, errors and failures", async () => {
    const { ledger, pool } = testLedger();
    for (const end of [
      () => pool.result("null"),
      () => pool.error("{}"),
      () => pool.fail("unreachable"),
    ]) {
      const waited = call(ledger, "state_getStorage", at);
      end();
      await waited;
    }
    assert.equal(pool.sent.length, 3);
  });

  it("uses the finalized block at the time of sending, not at the time of the answer", async () => {
    const { ledger, pool } = testLedger();
    pool.finalized = 4;
    const early = call(ledger, "chain_getBlockHash", "[5]");
    pool.finalized = 5;
    pool.result(`"${hash(5)}"`);
    await early;
    const late = call(ledger, "chain_getBlockHash", "[5]");
    assert(late instanceof Promise);
    pool.result(`"${hash(5)}"`);
    await late;
    assert(!(call(ledger, "chain_getBlockHash", "[5]") instanceof Promise));
  });

  it("is emptied when the nodes change, and stores no earlier answer", async () => {
    const { ledger, pool } = testLedger();
    const first = call(ledger, "system_chain");
    pool.result('"old"');
    await first;
    const under = call(ledger, "system_name");
    pool.epoch++;
    pool.result('"old name"');
    assert.deepEqual(await answer(under), ["result", '"old name"']);
    assert(call(ledger, "system_chain") instanceof Promise);
    assert(call(ledger, "system_name") instanceof Promise);
  });

  it("does not join a call that was sent before the nodes changed", async () => {
    const { ledger, pool } = testLedger();
    const before = call(ledger, "system_chain");
    pool.epoch++;
    const after = call(ledger, "system_chain");
    assert.equal(pool.sent.length, 2);
    pool.result('"old"');
    const joined = call(ledger, "system_chain");
    assert.equal(pool.sent.length, 2);
    pool.result('"new"');
    assert.deepEqual(await Promise.all([before, after, joined].map(answer)), [
      ["result", '"old"'],
      ["result", '"new"'],
      ["result", '"new"'],
    ]);
  });

  it("is not used for params of more than 64 KiB", async () => {
    const { ledger, pool } = testLedger();
    const params = `["0x${"ab".repeat(40_000)}","${hash(1)}"]`;
    const first = [
      call(ledger, "state_getStorage", params),
      call(ledger, "state_getStorage", params),
    ];
    assert.equal(pool.sent.length, 2);
    pool.result('"0x01"');
    pool.result('"0x01"');
    await Promise.all(first.map(answer));
    assert(call(ledger, "state_getStorage", params) instanceof Promise);
  });
});

describe("single flight", () => {
  it("sends identical reads once and gives all callers the same answer", async () => {
    const { ledger, pool } = testLedger();
    const waited = Array.from({ length: 5 }, () => call(ledger, "chain_getFinalizedHead", "[]"));
    waited.push(
      call(ledger, "chain_getFinalizedHead", ""),
      call(ledger, "chain_getFinalizedHead", "[ ]"),
    );
    assert.equal(pool.sent.length, 1);
    pool.result('"0x07"');
    for (const ended of await Promise.all(waited.map(answer)))
      assert.deepEqual(ended, ["result", '"0x07"']);
    assert(call(ledger, "chain_getFinalizedHead", "[]") instanceof Promise);
    assert.equal(pool.sent.length, 2);
  });

  it("fails for all callers if the call fails, and sends the next call again", async () => {
    const { ledger, pool } = testLedger();
    const waited = [call(ledger, "chain_getHead"), call(ledger, "chain_getHead")];
    pool.fail("unreachable");
    for (const ended of await Promise.all(waited.map(answer)))
      assert.deepEqual(ended, ["failed", "unreachable"]);
    void call(ledger, "chain_getHead");
    assert.equal(pool.sent.length, 2);
  });

  it("does not join calls that depend on the pool, write, or have different params", () => {
    const { ledger, pool } = testLedger({ methods: { custom_write: {} } });
    for (const name of [
      "system_accountNextIndex",
      "custom_write",
      "system_dryRun",
      "author_pendingExtrinsics",
    ]) {
      void call(ledger, name, '["0x01"]');
      void call(ledger, name, '["0x01"]');
    }
    assert.equal(pool.sent.length, 8);
    void call(ledger, "state_getStorage", '["0x01"]');
    void call(ledger, "state_getStorage", '["0x02"]');
    void call(ledger, "state_getStorageAt", '["0x01"]');
    assert.equal(pool.sent.length, 11);
  });
});
