import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import { demoChain, eventsKey } from "../plugins/ledger/ledger/decode/chains.ts";
import { referenceDecoder } from "../plugins/ledger/ledger/decode/polkadot-reference.ts";
import { startRpcNode, type RpcNode } from "./rpc-node.ts";

const chain = demoChain();

const startChainNode = (): Promise<RpcNode> => {
  const blockAt = (hash: unknown): (typeof chain.blocks)[number] | undefined =>
    chain.blocks.find((block) => block.hash === hash);
  return startRpcNode({
    chain_getBlock: ([hash]) => blockAt(hash)?.result ?? null,
    chain_getHeader: ([hash]) =>
      typeof hash === "string" ? (blockAt(hash)?.result.block.header ?? null) : { number: "0x64" },
    state_getRuntimeVersion: () => chain.runtimeVersion,
    state_getMetadata: () => chain.metadata,
    state_getStorage: ([key, hash]) => (key === eventsKey ? (blockAt(hash)?.events ?? null) : null),
  });
};

const pipeline = (node: string, write: boolean): string => `
version: 1
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
upstreams:
  ledger: { urls: "${node}" }
unmatched: [request-id]
tools:
  - ledger-tools: { upstream: ledger, write: ${write} }
routes:
  - { path: /rpc, methods: [POST], run: [request-id, authenticate, meter], to: tool-rpc }
`;

test("a reload keeps the runtimes that were read, until the upstream changes", async () => {
  await using first = await startChainNode();
  await using second = await startChainNode();
  await using gateway = await startTestGateway({ pipeline: pipeline(first.url, false) });
  const reference = referenceDecoder(chain.metadata);
  const decode = async (number: number): Promise<void> => {
    const block = chain.blocks[number];
    const call = { tool: "ledger_getBlockDecoded", params: { hash: block?.hash } };
    const response = await fetch(`${gateway.url}/rpc`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools.call", params: call }),
    });
    const said = await response.text();
    const extrinsics = block?.result.block.extrinsics.map((raw, i) => reference.extrinsic(raw, i));
    assert(said.includes(`"decodedExtrinsics":${JSON.stringify(extrinsics)}`), said.slice(0, 300));
    assert(said.includes(`"events":${JSON.stringify(reference.events(block?.events ?? "0x00"))}`));
  };
  const fetched = (node: RpcNode): number =>
    node.calls.filter(({ method }) => method === "state_getMetadata").length;

  await decode(3);
  await gateway.write(pipeline(first.url, true));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  await decode(4);
  assert.equal(fetched(first), 1);
  await gateway.write(pipeline(second.url, true));
  assert.deepEqual(await gateway.gateway.reloader.reload("test"), []);
  await decode(5);
  assert.deepEqual([fetched(first), fetched(second)], [1, 1]);
});
