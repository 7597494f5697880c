/** Proofs of calls in arrays and over WebSocket, and what a client gets in order to check an answer. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { hexOf } from "../../../plugins/proofs/proofs/scale.ts";
import { connectWs, type WsClient } from "../ledger/ledger-ws/ws-client.ts";
import { call, charged, post, startProved, type Setup } from "./proved-gateway.ts";
import { registry, TestChain, voters, type TestBlock } from "./test-chain.ts";
import { TestState } from "./test-state.ts";

const state = new TestState(new Map([["0x01", "0x02"]]));
const root = hexOf(state.root);

async function start(t: TestContext, options: object = {}): Promise<Setup> {
  const chain = new TestChain(voters(4)).add({ stateRoot: state.root }, 10).finalize(9);
  return await startProved(t, chain, options, [() => {}], async (method, params) =>
    method.startsWith("system_") ? {} : await state.answer(method, params),
  );
}

interface Answered {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly data?: unknown };
  readonly proof?: unknown;
}

const bodyOf = (id: number, method: string, ...params: unknown[]): object => ({
  jsonrpc: "2.0",
  id,
  method,
  params,
});

/** A finalized read, one at a block that is not finalized, a constant, a read without a proof, and what is no call. */
const arrayOf = ({ chain }: Setup): readonly unknown[] => [
  bodyOf(1, "state_getStorage", "0x01", chain.at(8).hash),
  bodyOf(2, "state_getStorage", "0x01", chain.at(10).hash),
  { jsonrpc: "2.0", method: "system_chain" },
  bodyOf(3, "system_chain"),
  bodyOf(4, "state_call", "Core_version", "0x", chain.at(8).hash),
  bodyOf(5, "no_method"),
  1,
];

const partsOf = ({ id, result, error, proof }: Answered): unknown[] => [
  id,
  result ?? error?.code,
  proof,
];

test("the header of an array counts what was proved, and only a client that asks gets more", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const response = await post(setup.gateway, arrayOf(setup));
  assert.equal(response.headers.get("x-sluice-proof"), "partial; finalized=1; included=1; none=4");
  const answers = (await response.json()) as Answered[];
  const none = undefined;
  assert.deepEqual(answers.map(partsOf), [
    [1, "0x02", none],
    [2, "0x02", none],
    [3, {}, none],
    [4, "0x", none],
    [5, -32601, none],
    [null, -32600, none],
  ]);
  const asked = await post(setup.gateway, arrayOf(setup), "prefer");
  const proofs = ((await asked.json()) as Answered[]).map(({ proof }) => proof);
  const unproved = { state: "none", reason: "this call cannot be proved" };
  const noCall = { state: "none", reason: "not a call of a known method" };
  assert.deepEqual(proofs, [
    { state: "finalized", block: setup.chain.at(8).hash, root },
    { state: "included", block: setup.chain.at(10).hash, root },
    unproved,
    unproved,
    noCall,
    noCall,
  ]);
});

test("require refuses the calls of an array that are not proved, and does not charge them", async (t) => {
  const setup = await start(t, { proof: "require" });
  const response = await post(setup.gateway, arrayOf(setup));
  const answers = (await response.json()) as Answered[];
  assert.deepEqual(
    answers.map(({ id, result, error }) => [id, result ?? error?.code]),
    [
      [1, "0x02"],
      [2, -32052],
      [3, {}],
      [4, -32052],
      [5, -32601],
      [null, -32600],
    ],
  );
  assert.equal(await charged(setup), 600);
});

async function connect({ gateway }: Setup, t: TestContext, wanted?: string): Promise<WsClient> {
  const headers: Record<string, string> = wanted === undefined ? {} : { "x-sluice-proof": wanted };
  const client = await connectWs(`${gateway.url}/rpc`, { key: gateway.key, headers });
  t.after(() => client[Symbol.asyncDispose]());
  return client;
}

async function ask(client: WsClient, body: unknown): Promise<Answered> {
  return JSON.parse(await client.ask(JSON.stringify(body))) as Answered;
}

test("answers over WebSocket have the member proof if the handshake asked for it", async (t) => {
  const setup = await start(t);
  const read = bodyOf(1, "state_getStorage", "0x01", setup.chain.at(8).hash);
  const silent = await connect(setup, t);
  assert.deepEqual(partsOf(await ask(silent, read)), [1, "0x", undefined]);
  const client = await connect(setup, t, "prefer");
  const proof = { state: "finalized", block: setup.chain.at(8).hash, root };
  assert.deepEqual(partsOf(await ask(client, read)), [1, "0x02", proof]);
  const array = (await ask(client, [read])) as unknown as Answered[];
  assert.deepEqual(array.map(partsOf), [[1, "0x02", proof]]);
});

test("require refuses subscriptions and follows over WebSocket, and what is not proved", async (t) => {
  const setup = await start(t);
  const client = await connect(setup, t, "require");
  for (const [method, ...params] of [
    ["chainHead_v1_follow", true],
    ["chain_subscribeNewHeads"],
    ["archive_v1_storage", setup.chain.at(8).hash, []],
    ["state_getStorage", "0x01", setup.chain.at(10).hash],
  ] as const) {
    const { error } = await ask(client, bodyOf(1, method, ...params));
    assert.equal(error?.code, -32052, method);
  }
  const { result } = await ask(client, bodyOf(2, "state_getStorage", "0x01"));
  assert.equal(result, "0x02");
});

test("a client that asks with return gets the nodes of the trie, headers and the justification", async (t) => {
  const setup = await start(t);
  const { chain } = setup;
  const read = async ({ hash }: TestBlock): Promise<unknown> => {
    const body = bodyOf(1, "state_getStorage", "0x01", hash);
    const response = await post(setup.gateway, body, "return");
    const expected = hash === chain.head.hash ? "included" : "finalized";
    assert.equal(
      response.headers.get("x-sluice-proof"),
      `${expected}; block=${hash}; root=${root}`,
    );
    return ((await response.json()) as Answered).proof;
  };
  const scale = (at: number): string => registry.createType("Header", chain.at(at).header).toHex();
  const proof = await state.answer("state_getReadProof", [["0x01"]]);
  const { proof: nodes } = proof as { readonly proof: unknown };
  const block = chain.at(8).hash;
  // The signatures of Ed25519 are always the same.
  const justification = chain.justify(chain.at(9));
  const headers = [scale(8), scale(9)];
  const finalized = { state: "finalized", block, root, nodes, headers, justification };
  assert.deepEqual(await read(chain.at(8)), finalized);
  const { hash } = chain.head;
  const included = { state: "included", block: hash, root, nodes, headers: [scale(10)] };
  assert.deepEqual(await read(chain.head), included);
});

test("a value at a block that is not finalized, or without a checkpoint, is included in its block", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const { hash } = setup.chain.head;
  const read = await call(setup, "state_getStorage", ["0x01", hash]);
  assert.equal(read.proof, `included; block=${hash}; root=${root}`);
  const refused = await call(setup, "state_getStorage", ["0x01", hash], "require");
  assert.equal(refused.error?.code, -32052);
  const unchecked = await start(t, { proof: "prefer", checkpoint: undefined });
  const block = unchecked.chain.at(8).hash;
  const { proof, result } = await call(unchecked, "state_getStorage", ["0x01", block]);
  assert.deepEqual([result, proof], ["0x02", `included; block=${block}; root=${root}`]);
});

test("what cannot be proved is answered with the reason, or refused", async (t) => {
  const setup = await start(t, { proof: "prefer" });
  const { hash } = setup.chain.at(8);
  const cases: [string, unknown[], string][] = [
    ["state_getStorage", ["0x01"], "the call names no block"],
    ["state_call", ["Core_version", "0x", hash], "this call cannot be proved"],
    ["state_getStorage", ["key", hash], "this call cannot be proved"],
    ["unknown_method", [], "not a call of a known method"],
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
});

test("a client cannot weaken require, which answers a read without a block at the proved head", async (t) => {
  const setup = await start(t, { proof: "require" });
  const { hash } = setup.chain.at(9);
  for (const wanted of [undefined, "off", "prefer"]) {
    const { proof, result } = await call(setup, "state_getStorage", ["0x01"], wanted);
    assert.deepEqual([result, proof], ["0x02", `finalized; block=${hash}; root=${root}`]);
  }
  const chain = await call(setup, "system_chain", []);
  assert.deepEqual(chain.result, {});
  assert.match(chain.proof ?? "", /^none;/);
});

test("a client asks for a proof by the header, and an unknown value is refused", async (t) => {
  const setup = await start(t);
  const params = ["0x01", setup.chain.at(8).hash];
  assert.equal((await call(setup, "state_getStorage", params)).proof, null);
  assert.equal((await call(setup, "state_getStorage", params, "off")).proof, null);
  const { proof } = await call(setup, "state_getStorage", params, "prefer");
  assert.match(proof ?? "", /^finalized;/);
  const { error } = await call(setup, "state_getStorage", params, "maybe");
  assert.equal(error?.code, -32600);
});
