/**
 * Measures reads of distinct accounts through a gateway, with and without proofs: the CPU time of the gateway per read,
 * whose ratio is that of the throughput, the bytes from the node and the memory. The node and the client are a process
 * of their own, so that their work is not counted.
 *
 *   node bench/micro/proved-reads.ts
 */
import { fork } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { startTestGateway } from "../../plugins/contracts/testing.ts";
import type { Checkpoint } from "../../plugins/proofs/proofs/finalized-chain.ts";
import { hexOf } from "../../plugins/proofs/proofs/scale.ts";
import { TrieProof } from "../../plugins/proofs/trie/read-proof.ts";
import { trieRoot } from "../../plugins/proofs/trie/trie-root.ts";
import { serveNode } from "../../test/plugins/proofs/node-server.ts";
import { pipelineOf } from "../../test/plugins/proofs/proved-gateway.ts";
import { TestChain, voters } from "../../test/plugins/proofs/test-chain.ts";

const accounts = 20_000;
const readsPerRound = 2_000;
const clients = 32;

interface Load {
  readonly url: string;
  readonly key: string;
  readonly mode: "off" | "prefer";
  readonly from: number;
}

if (process.send === undefined) await measure();
else await serve(process.send.bind(process));

async function measure(): Promise<void> {
  const child = fork(import.meta.filename);
  const [{ urls, checkpoint }] = (await once(child, "message")) as [
    { readonly urls: readonly string[]; readonly checkpoint: Checkpoint },
  ];
  await using gateway = await startTestGateway({
    // A cached answer would need no node.
    pipeline: pipelineOf({ urls, checkpoint, cacheBytes: 0, proof: "off" }),
    strict: false,
  });
  const { url, key } = gateway;
  console.log(
    "| reads | CPU of the gateway | bytes from the node | memory |\n| --- | --- | --- | --- |",
  );
  let from = 0;
  for (const round of ["warm-up", "1", "2", "3"]) {
    for (const mode of ["off", "prefer"] as const) {
      const before = process.cpuUsage();
      child.send({ url, key, mode, from } satisfies Load);
      const [{ bytes, failed }] = (await once(child, "message")) as [
        { bytes: number; failed: number },
      ];
      const { user, system } = process.cpuUsage(before);
      const { rss } = process.memoryUsage();
      from += readsPerRound;
      if (failed > 0) throw new Error(`${failed} reads were not answered as expected`);
      const cpu = `${((user + system) / readsPerRound).toFixed(0)} µs`;
      const each = (bytes / readsPerRound).toFixed(0);
      const memory = `${(rss / 2 ** 20).toFixed(0)} MiB`;
      const name = mode === "off" ? "without proofs" : "proved";
      console.log(`| ${name}, round ${round} | ${cpu} | ${each} | ${memory} |`);
    }
  }
  child.kill();
}

async function serve(send: (message: object) => unknown): Promise<void> {
  const map = randomBytes(32);
  const entries = Array.from(
    { length: accounts },
    () => [Buffer.concat([map, randomBytes(48)]), randomBytes(80)] as const,
  );
  const nodes: Uint8Array[] = [];
  const stateRoot = trieRoot(entries, "V1", (node) => nodes.push(node));
  const all = new TrieProof(nodes);
  const values = new Map(entries.map(([key, value]) => [hexOf(key), value]));
  const chain = new TestChain(voters(4)).add({ stateRoot }, 10).finalize();
  let bytes = 0;
  const answer = (method: string, params: readonly unknown[]): unknown => {
    const [wanted] = [params[0]].flat();
    const value = values.get(String(wanted));
    if (method === "state_getStorage" && value !== undefined) return hexOf(value);
    if (method !== "state_getReadProof") return chain.answer(method, params);
    all.used.clear();
    all.value(stateRoot, Buffer.from(String(wanted).slice(2), "hex"));
    return { at: params[1], proof: Array.from(all.used.values(), hexOf) };
  };
  const node = await serveNode({
    call(method, params) {
      const result = answer(method, params);
      if (method.startsWith("state_")) bytes += JSON.stringify(result).length;
      return Promise.resolve(result);
    },
  });
  process.on("message", (load: Load) => {
    bytes = 0;
    const waiting = entries.slice(load.from, load.from + readsPerRound).map(([key]) => hexOf(key));
    let failed = 0;
    const read = async (): Promise<void> => {
      for (let key = waiting.pop(); key !== undefined; key = waiting.pop()) {
        const params = [key, chain.at(8).hash];
        const response = await fetch(`${load.url}/rpc`, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            authorization: `Bearer ${load.key}`,
            "x-sluice-proof": load.mode,
          },
          body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "state_getStorage", params }),
        });
        const { result } = (await response.json()) as { readonly result?: unknown };
        const isProved = response.headers.get("x-sluice-proof")?.startsWith("finalized") === true;
        if (
          result !== hexOf(values.get(key) ?? Buffer.alloc(0)) ||
          isProved !== (load.mode !== "off")
        )
          failed++;
      }
    };
    void Promise.all(Array.from({ length: clients }, read)).then(() => send({ bytes, failed }));
  });
  send({ urls: [node.url], checkpoint: chain.checkpoint(0) });
}
