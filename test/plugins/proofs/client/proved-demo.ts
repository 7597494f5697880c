/**
 * The demo node with a chain that can be proved: its headers have the root of the recorded state, and are finalized by
 * votes. A gateway that lies is a proxy in front of a real one.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { WebSocketServer } from "ws";
import type { TestGateway } from "../../../../plugins/contracts/testing.ts";
import { openChain } from "../../../../plugins/ledger/demo/chain.ts";
import { RpcFailure } from "../../../../plugins/ledger/demo/method.ts";
import { demoMethods } from "../../../../plugins/ledger/demo/methods.ts";
import { startDemoNode } from "../../../../plugins/ledger/demo/node.ts";
import { readRecording } from "../../../../plugins/ledger/demo/recording.ts";
import { bytesOf, hexOf } from "../../../../plugins/proofs/proofs/scale.ts";
import { TrieProof } from "../../../../plugins/proofs/trie/read-proof.ts";
import { orderedRoot, trieRoot } from "../../../../plugins/proofs/trie/trie-root.ts";
import { startProvedGateway } from "../proved-gateway.ts";
import { TestChain, voters } from "../test-chain.ts";

export interface ProvedDemo {
  readonly gateway: TestGateway;
  readonly chain: TestChain;
  readonly url: string;
}

const bytes = (text: string): Uint8Array => bytesOf(text) ?? new Uint8Array(0);

/** `finalized`: number of the finalized head. The best block is block 8. */
export async function startProvedDemo(
  t: TestContext,
  finalized = 8,
  options: object = {},
): Promise<ProvedDemo> {
  const recording = readRecording();
  const recorded = openChain(recording);
  const chain = new TestChain(voters(4));
  const states = recording.blocks.map((block, number) => {
    const keys = recorded.keysAt("0x", Infinity, undefined, number);
    const entries = keys.map(
      (key) => [bytes(key), bytes(recorded.valueAt(key, number) ?? "")] as const,
    );
    // PAPI reads the hash of the runtime, which is not recorded.
    entries.push([bytes("0x3a636f6465"), bytes("0x00")]);
    const nodes: Uint8Array[] = [];
    const stateRoot = trieRoot(entries, "V1", (node) => nodes.push(node));
    const extrinsicsRoot = orderedRoot(block.extrinsics.map(bytes), "V1");
    if (number > 0) chain.add({ stateRoot, extrinsicsRoot });
    return { nodes, stateRoot };
  });
  chain.finalize(finalized);
  const blocks = recording.blocks.map(({ extrinsics }, number) => {
    const { hash, header } = chain.at(number);
    return {
      hash,
      header: header as unknown as (typeof recording.blocks)[0]["header"],
      extrinsics,
    };
  });
  const genesisHash = chain.at(0).hash;
  const proved = openChain({ ...recording, genesisHash, blocks });
  const head = chain.at(finalized).hash;
  const all = demoMethods(proved);
  const methods = new Map([
    ...all,
    ["chain_getFinalizedHead", { params: [], run: () => head }],
    [
      "chain_getHeader",
      {
        params: ["hash"],
        // Subscriptions to finalized heads read it without a hash.
        run: (hash: unknown) => all.get("chain_getHeader")?.run(hash ?? head),
      },
    ],
    [
      "grandpa_proveFinality",
      {
        params: ["block"],
        run(block: unknown) {
          if (Number(block) > finalized) throw new RpcFailure(1, "not yet finalized");
          return chain.prove(Number(block));
        },
      },
    ],
    [
      "state_getReadProof",
      {
        params: ["keys", "hash"],
        run(keys: unknown, hash: unknown) {
          const state = states[proved.numberOf(String(hash)) ?? 0] ?? {
            nodes: [],
            stateRoot: bytes("0x"),
          };
          const proof = new TrieProof(state.nodes);
          for (const key of keys as string[]) proof.value(state.stateRoot, bytes(key));
          return { at: hash, proof: Array.from(proof.used.values(), hexOf) };
        },
      },
    ],
  ]);
  const node = await startDemoNode({ chain: proved, methods });
  t.after(() => node.close());
  const { gateway } = await startProvedGateway(t, chain, { urls: [node.url], ...options });
  return { gateway, chain, url: `${gateway.url.replace("http:", "ws:")}/ws/${gateway.key}` };
}

export type Message = Record<string, unknown>;

/** Returns the address of a proxy in front of the gateway. `lie`: changes the messages of the gateway in place. */
export async function startLiar(
  t: TestContext,
  url: string,
  lie: (message: Message, asked: { readonly method: string } | undefined) => void,
): Promise<string> {
  const server = createServer();
  const sockets = new WebSocketServer({ server, handleProtocols: () => "ledger.v1" });
  sockets.on("connection", (client, request) => {
    const offered = request.headers["sec-websocket-protocol"]?.split(/, */) ?? [];
    const gateway = new WebSocket(url, offered);
    const asked = new Map<unknown, { readonly method: string }>();
    const early: string[] = [];
    const send = (text: string): void => gateway.send(text);
    client.on("message", (data: Buffer) => {
      const text = data.toString();
      const call = JSON.parse(text) as { readonly id: unknown; readonly method: string };
      asked.set(call.id, call);
      if (gateway.readyState === WebSocket.OPEN) send(text);
      else early.push(text);
    });
    gateway.addEventListener("open", () => early.splice(0).forEach(send));
    gateway.addEventListener("message", ({ data }) => {
      const message = JSON.parse(String(data)) as Message;
      lie(message, asked.get(message["id"]));
      client.send(JSON.stringify(message));
    });
    gateway.addEventListener("close", () => client.close());
    client.on("close", () => gateway.close());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const client of sockets.clients) client.terminate();
    sockets.close();
    server.close();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
