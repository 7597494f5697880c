/** Reads of storage over HTTP with proofs: what is answered, what is refused, and that no wrong value passes. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { hexOf } from "../../../plugins/proofs/proofs/scale.ts";
import { trieRoot } from "../../../plugins/proofs/trie/trie-root.ts";
import { call, charged, post, startProved, type Lie, type Setup } from "./proved-gateway.ts";
import { TestChain, voters } from "./test-chain.ts";

const key = Buffer.from("a key");
const entries = [
  [key, Buffer.from("a value that is longer than what layout V1 keeps in a node")],
  [Buffer.from("a key of another value"), Buffer.from("2")],
  [Buffer.from("b"), Buffer.from("3")],
] as const;
const nodes: Uint8Array[] = [];
const stateRoot = trieRoot(entries, "V1", (node) => nodes.push(node));
const root = hexOf(stateRoot);
const value = hexOf(entries[0][1]);
const wrong = hexOf(Buffer.from("wrong"));

/** A chain of ten blocks, the last one of which is not finalized. */
async function start(
  t: TestContext,
  options: object,
  lies: readonly Lie[] = [() => undefined],
): Promise<Setup> {
  const chain = new TestChain(voters(4)).add({ stateRoot }, 10).finalize(9);
  return await startProved(t, chain, options, lies, (method) => {
    if (method === "state_getStorage") return value;
    if (method === "state_getReadProof") return { at: chain.head.hash, proof: nodes.map(hexOf) };
    return method.startsWith("system_") ? {} : undefined;
  });
}

test("a value at a finalized block is proved, and so is an absent one", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const { hash } = setup.chain.at(8);
  const read = await call(setup, "state_getStorage", [hexOf(key), hash]);
  assert.equal(read.result, value);
  assert.equal(read.proof, `finalized; block=${hash}; root=${root}`);
  assert.equal(await charged(setup), 500);
  const absent = await call(setup, "state_getStorage", [
    "0x00",
    hash.toUpperCase().replace("0X", "0x"),
  ]);
  assert.equal(absent.result, null);
  assert.equal(absent.proof, `finalized; block=${hash}; root=${root}`);
});

test("a value at a block that is not finalized is included in it", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const { hash } = setup.chain.head;
  const read = await call(setup, "state_getStorage", [hexOf(key), hash]);
  assert.equal(read.proof, `included; block=${hash}; root=${root}`);
  const refused = await call(setup, "state_getStorage", [hexOf(key), hash], "require");
  assert.equal(refused.error?.code, -32052);
});

test("without a checkpoint, a value is included in the block that was named", async (t) => {
  const setup = await start(t, { proof: "prefer", checkpoint: undefined });
  const { hash } = setup.chain.at(8);
  const { proof, result } = await call(setup, "state_getStorage", [hexOf(key), hash]);
  assert.equal(result, value);
  assert.equal(proof, `included; block=${hash}; root=${root}`);
});

test("what cannot be proved is answered with the reason, or refused", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const cases: [string, unknown[], string][] = [
    ["state_getStorage", [hexOf(key)], "the call names no block"],
    ["state_call", ["Core_version", "0x", setup.chain.at(8).hash], "this call cannot be proved"],
    ["state_getStorage", ["key", setup.chain.at(8).hash], "this call cannot be proved"],
    ["unknown_method", [], "only a single call of a known method is proved"],
  ];
  for (const [method, params, reason] of cases) {
    const { proof } = await call(setup, method, params);
    assert.equal(proof, `none; reason=${reason}`);
  }
  for (const [method, params, reason] of cases.slice(1)) {
    const { proof, error } = await call(setup, method, params, "require");
    assert.equal(proof, `none; reason=${reason}`);
    if (method === "unknown_method") continue;
    assert.deepEqual(error, { code: -32052, message: "Not Proved", data: { reason } });
  }
  const array = await post(setup.gateway, [{ jsonrpc: "2.0", id: 1, method: "system_chain" }]);
  assert.match(array.headers.get("x-sluice-proof") ?? "", /^none; reason=only a single call/);
});

test("require answers a read without a block at the proved head, and constants without a proof", async (t) => {
  const setup = await start(t, { proof: "require" });
  const { hash } = setup.chain.at(9);
  for (const wanted of [undefined, "off", "prefer"]) {
    const { proof, result } = await call(setup, "state_getStorage", [hexOf(key)], wanted);
    assert.equal(result, value);
    assert.equal(proof, `finalized; block=${hash}; root=${root}`);
  }
  const chain = await call(setup, "system_chain", []);
  assert.deepEqual(chain.result, {});
  assert.match(chain.proof ?? "", /^none;/);
});

test("a client asks for a proof by the header, and an unknown value is refused", async (t) => {
  const setup = await start(t, {});
  const params = [hexOf(key), setup.chain.at(8).hash];
  assert.equal((await call(setup, "state_getStorage", params)).proof, null);
  assert.equal((await call(setup, "state_getStorage", params, "off")).proof, null);
  assert.match(
    (await call(setup, "state_getStorage", params, "prefer")).proof ?? "",
    /^finalized;/,
  );
  const { error } = await call(setup, "state_getStorage", params, "maybe");
  assert.equal(error?.code, -32600);
});

const missing = nodes.slice(1).map(hexOf);
const lies: Readonly<Record<string, (method: string) => unknown>> = {
  "another value": (method) =>
    method === "state_getReadProof"
      ? { proof: nodes.map((node) => (node.length > 50 ? wrong : hexOf(node))) }
      : undefined,
  "a proof without a node": (method) =>
    method === "state_getReadProof" ? { proof: missing } : undefined,
  "no proof": (method) => (method === "state_getReadProof" ? { proof: null } : undefined),
  "a proof that is no hexadecimal text": (method) =>
    method === "state_getReadProof" ? { proof: ["0xzz"] } : undefined,
  "another header": (method) =>
    method === "chain_getHeader" ? { number: "0x1", digest: { logs: [] } } : undefined,
};

for (const [name, lie] of Object.entries(lies)) {
  test(`no wrong value passes: ${name}`, async (t) => {
    const liar: Lie = (method, param) =>
      method === "state_getStorage" ? wrong : param === undefined ? undefined : lie(method);
    const alone = await start(t, { proof: "require" }, [liar]);
    const params = [hexOf(key), alone.chain.at(8).hash];
    const { error, result } = await call(alone, "state_getStorage", params);
    assert.equal(error?.code, -32052);
    assert.equal(result, undefined);
    assert.equal(await charged(alone), 0);
    const both = await start(t, { proof: "require" }, [liar, () => undefined]);
    const read = await call(both, "state_getStorage", [hexOf(key), both.chain.at(8).hash]);
    assert.equal(read.result, value);
  });
}
