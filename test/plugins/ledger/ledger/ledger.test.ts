/** Calls of the service `ledger`: where answers come from, and which callers share them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { LedgerAnswer } from "sluice-gateway/services";
import { createMetrics } from "../../../../src/base/metrics.ts";
import { HeldBytes } from "../../../../src/memory/held-bytes.ts";
import { TextNode } from "../ledger-ws/text-node.ts";
import { hash, request } from "./fixture.ts";
import { startBlockNode, type BlockNode } from "./pool/block-node.ts";
import { startPool, until, type PoolUnderTest } from "./pool/nodes.ts";
import type { LedgerOptions } from "./start-ledger.ts";

interface Test extends PoolUnderTest {
  readonly node: TextNode;
  /** Makes the node report another version, until the ledger knows it. */
  renew(): Promise<void>;
}

async function start(options: LedgerOptions = {}): Promise<Test> {
  const node = new TextNode();
  await node.start();
  node.results.set("system_version", '"1"');
  const pool = await startPool([node.url], {
    singleFlight: true,
    cacheBytes: 1 << 20,
    answerBytes: 1 << 24,
    headersMs: 600_000,
    ...options,
  });
  await pool.probed;
  let best = 100;
  const renew = (): Promise<void> => {
    best++;
    node.results.set("system_version", `"${best}"`);
    node.results.set("chain_getHeader []", `{"number":"0x${best.toString(16)}"}`);
    return pool.probesShow(best);
  };
  const stop = async (): Promise<void> => {
    await pool.close();
    await node.stop();
  };
  return Object.assign(pool, { node, renew, [Symbol.asyncDispose]: stop });
}

async function answer(waited: LedgerAnswer | Promise<LedgerAnswer>): Promise<readonly string[]> {
  const ended = await waited;
  return ended.kind === "failed" ? ["failed", ended.reason] : [ended.kind, ended.bytes.toString()];
}

const at = `["0x26aa","${hash(1)}"]`;
const value = ["result", '"0x01"'];

describe("a call", () => {
  it("ends for a caller that leaves, and continues for the cache and the other callers", async () => {
    await using test = await start();
    const { node, call } = test;
    node.results.set("state_getStorage", '"0x01"');
    node.held.add("state_getStorage");
    const leaver = new AbortController();
    const left = call("state_getStorage", at, leaver.signal);
    const stayed = call("state_getStorage", at);
    leaver.abort();
    assert.deepEqual(await answer(left), ["failed", "aborted"]);
    await until(() => node.count("state_getStorage") === 1);
    node.release();
    assert.deepEqual(await answer(stayed), value);
    assert.deepEqual(call("state_getStorage", at), {
      kind: "result",
      bytes: Buffer.from('"0x01"'),
    });
  });

  it("of the gateway itself may use known methods that clients may not call, but no other methods", async () => {
    await using test = await start({ methods: { state_getMetadata: false } });
    const { ledger, node } = test;
    for (const name of ["system_health", "state_getMetadata", "author_submitExtrinsic"]) {
      const asked = node.count(name);
      await ledger.call(ledger.internal(name), Buffer.alloc(0));
      assert.equal(node.count(name), asked + 1);
      assert.equal(ledger.methods.has(name), false);
      const refused = ledger.rpc(Buffer.from(request(name, "[]")));
      assert.equal(refused.costMilliCu, 0);
      assert.match(String(await refused.run()), /Method Not Allowed/);
    }
    assert.equal(ledger.internal("system_chain").name, "system_chain");
    assert.throws(() => ledger.internal("author_rotateKeys"), /unknown node method/);
  });

  it("of many calls counts the memory of its answers, and asks for nothing more when the caller holds too much", async () => {
    await using test = await start({ batchParallel: 1 });
    const { ledger, node } = test;
    const mebibyte = 1 << 20;
    node.results.set("state_getMetadata", `"0x${"ab".repeat(mebibyte / 2)}"`);
    const calls = [0, 1, 2, 3].map((n) => request("state_getMetadata", `["${hash(n)}"]`));
    const held = new HeldBytes(8 * mebibyte, createMetrics());
    held.hold("key_1", "answer").resize(2 * mebibyte);
    const caller = {
      clientLeft: false,
      facts: { caller: { id: "key_1", group: "ws_1", burst: 2, isOperator: false } },
    };
    const running = ledger.rpc(Buffer.from(`[${calls.join(",")}]`)).run(caller, held);
    for (const count of [1, 2]) {
      node.held.add("state_getMetadata");
      await until(() => node.count("state_getMetadata") === count);
      assert.equal(held.bytesOf("result") > mebibyte, count === 2);
      node.release();
    }
    const answers = JSON.parse(Buffer.concat((await running) as Buffer[]).toString()) as {
      error?: object;
    }[];
    assert.deepEqual(
      answers.map(({ error }) => error !== undefined),
      [false, true, true, true],
    );
    assert.equal(node.count("state_getMetadata"), 2);
    assert.equal(held.bytesOf("result"), 0);
  });
});

describe("the cache of a ledger", () => {
  it("answers a repeated immutable call synchronously, and distinguishes methods, params and upper case", async () => {
    await using test = await start();
    const { node, call } = test;
    node.results.set("state_getStorage", '"0x01"');
    await call("state_getStorage", at);
    for (const params of [at, ` [ "0x26aa",\n"${hash(1)}" ]`]) {
      const again = call("state_getStorage", params);
      assert(!(again instanceof Promise));
      assert.deepEqual(await answer(again), value);
    }
    assert(call("state_getStorageHash", at) instanceof Promise);
    assert(call("state_getStorage", at.replace("26aa", "26ab")) instanceof Promise);
    assert(call("state_getStorage", at.replace("26aa", "26AA")) instanceof Promise);
  });

  it("never stores null, errors and failures", async () => {
    await using test = await start();
    const { node, call } = test;
    for (const result of ["null", undefined, "{"]) {
      if (result === undefined) node.results.delete("state_getStorage");
      else node.results.set("state_getStorage", result);
      await call("state_getStorage", at);
    }
    assert.equal(node.count("state_getStorage"), 3);
    assert(call("state_getStorage", at) instanceof Promise);
  });

  it("uses the finalized block at the time of sending, not at the time of the answer", async () => {
    await using test = await start();
    const { node, call } = test;
    const ask = (): LedgerAnswer | Promise<LedgerAnswer> => call("chain_getBlockHash", "[105]");
    node.held.add("chain_getBlockHash");
    const early = ask();
    await until(() => node.calls.includes("chain_getBlockHash [105]"));
    // The probes also call the method.
    node.held.clear();
    node.results.set("chain_getFinalizedHead", `"${hash(105)}"`);
    await test.probes(() => test.nodes()[0]?.finalized === 105);
    node.release();
    await early;
    const late = ask();
    assert(late instanceof Promise);
    await late;
    assert(!(ask() instanceof Promise));
  });

  it("is emptied when the nodes change, and stores no earlier answer", async () => {
    await using test = await start();
    const { node, call } = test;
    node.results.set("system_name", '"old name"');
    node.held.add("system_name");
    await call("system_chain");
    const before = call("system_name");
    await test.renew();
    await until(() => node.count("system_name") === 1);
    node.release();
    assert.deepEqual(await answer(before), ["result", '"old name"']);
    assert(call("system_chain") instanceof Promise);
    assert(call("system_name") instanceof Promise);
  });

  it("does not join a call that was sent before the nodes changed", async () => {
    await using test = await start();
    const { node, call } = test;
    node.held.add("system_chain");
    node.results.set("system_chain", '"old"');
    const before = call("system_chain");
    await until(() => node.count("system_chain") === 1);
    node.results.set("system_chain", '"new"');
    await test.renew();
    const [after, joined] = [call("system_chain"), call("system_chain")];
    await until(() => node.count("system_chain") === 2);
    node.release();
    assert.deepEqual(await Promise.all([before, after, joined].map(answer)), [
      ["result", '"old"'],
      ["result", '"new"'],
      ["result", '"new"'],
    ]);
    assert.equal(node.count("system_chain"), 2);
  });

  it("is not used for params of more than 64 KiB", async () => {
    await using test = await start();
    const { node, call } = test;
    const params = `["0x${"ab".repeat(40_000)}","${hash(1)}"]`;
    node.results.set("state_getStorage", '"0x01"');
    await Promise.all([call("state_getStorage", params), call("state_getStorage", params)]);
    assert.equal(node.count("state_getStorage"), 2);
    assert(call("state_getStorage", params) instanceof Promise);
  });
});

describe("single flight", () => {
  it("sends identical reads once and gives all callers the same answer", async () => {
    await using test = await start();
    const { node, call } = test;
    node.results.set("chain_getHead", '"0x07"');
    const params = ["[]", "[]", "[]", "", "[ ]"];
    const waited = params.map((text) => answer(call("chain_getHead", text)));
    for (const ended of await Promise.all(waited)) assert.deepEqual(ended, ["result", '"0x07"']);
    assert.equal(node.count("chain_getHead"), 1);
    await call("chain_getHead");
    assert.equal(node.count("chain_getHead"), 2);
  });

  it("fails for all callers if the call fails, and sends the next call again", async () => {
    await using test = await start();
    const { node, call } = test;
    node.results.set("chain_getHead", "{");
    const waited = [call("chain_getHead"), call("chain_getHead")];
    for (const ended of await Promise.all(waited.map(answer)))
      assert.deepEqual(ended, ["failed", "garbage"]);
    assert.equal(node.count("chain_getHead"), 1);
    await call("chain_getHead");
    assert.equal(node.count("chain_getHead"), 2);
  });

  it("does not join a call that waits for an ejected node, while another one is usable", async () => {
    await using a = await startBlockNode("a");
    await using b = await startBlockNode("b");
    const options = { singleFlight: true, headersMs: 600_000 };
    await using pool = await startPool([a.url, b.url], options);
    await pool.probed;
    const name = "system_properties";
    const asked = ({ received }: BlockNode): number =>
      received.filter(({ body }) => body.includes(name)).length;
    for (const node of [a, b]) node.stalls = (method) => method === name;
    const stuck = answer(pool.call(name));
    await until(() => asked(a) + asked(b) > 0);
    const [silent, other, text] = asked(a) > 0 ? [a, b, '"b"'] : [b, a, '"a"'];
    silent.stalls = () => true;
    other.stalls = () => false;
    await pool.probes(() => pool.exclusionReasons().includes("unreachable"));
    const joined = [answer(pool.call(name)), answer(pool.call(name))];
    for (const ended of await Promise.all(joined)) assert.deepEqual(ended, ["result", text]);
    assert.equal(asked(other), 1);
    await pool.close();
    assert.deepEqual(await stuck, ["failed", "unreachable"]);
  });

  it("does not join calls that depend on the pool, write, or have different params", async () => {
    await using test = await start({ methods: { custom_write: {} } });
    const { node, call } = test;
    const names = ["system_accountNextIndex", "custom_write", "system_dryRun"];
    for (const name of [...names, "author_pendingExtrinsics"]) {
      await Promise.all([call(name, '["0x01"]'), call(name, '["0x01"]')]);
      assert.equal(node.count(name), 2, name);
    }
    await Promise.all([
      call("state_getStorage", '["0x01"]'),
      call("state_getStorage", '["0x02"]'),
      call("state_getStorageAt", '["0x01"]'),
    ]);
    assert.deepEqual([node.count("state_getStorage"), node.count("state_getStorageAt")], [2, 1]);
  });
});
