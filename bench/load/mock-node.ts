/** A node that answers the workload at once, so that only the gateway in front of it is measured. Prints its port. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { finalizedHeight, hashOf } from "./workload.ts";

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

const storageValue = `0x${"01".repeat(80)}`;
/** About 20 KB of extrinsics. */
const extrinsics = Array.from(
  { length: 20 },
  (_, n) => `0x${n.toString(16).padStart(2, "0").repeat(500)}`,
);

function header(height: number): object {
  return {
    parentHash: hashOf(height - 1),
    number: `0x${height.toString(16)}`,
    stateRoot: hashOf(1),
    extrinsicsRoot: hashOf(2),
    digest: { logs: [] },
  };
}

const answers: Readonly<Record<string, (params: readonly unknown[]) => unknown>> = {
  system_health: () => ({ peers: 12, isSyncing: false, shouldHavePeers: true }),
  system_chain: () => "Bench",
  system_version: () => "1.0.0",
  chain_getBlockHash: ([n]) => hashOf(typeof n === "number" ? n : finalizedHeight),
  chain_getFinalizedHead: () => hashOf(finalizedHeight),
  chain_getHeader: ([hash]) => header(typeof hash === "string" ? Number(hash) : finalizedHeight),
  chain_getBlock: ([hash]) => ({
    block: { header: header(Number(hash)), extrinsics },
    justifications: null,
  }),
  state_getStorage: () => storageValue,
  state_getRuntimeVersion: () => ({ specName: "bench", specVersion: 1 }),
  rpc_methods: () => ({ methods: Object.keys(answers) }),
};

function answer(call: Call): object {
  const reply = answers[call.method];
  if (reply === undefined) {
    return { jsonrpc: "2.0", id: call.id, error: { code: -32601, message: "Method not found" } };
  }
  return { jsonrpc: "2.0", id: call.id, result: reply(call.params ?? []) };
}

const server = createServer({ keepAliveTimeout: 60_000 }, (req, res) => {
  let text = "";
  req.setEncoding("utf8");
  req.on("data", (chunk: string) => (text += chunk));
  req.on("end", () => {
    const calls = JSON.parse(text) as Call | Call[];
    const body = JSON.stringify(Array.isArray(calls) ? calls.map(answer) : answer(calls));
    res.writeHead(200, ["content-type", "application/json", "content-length", String(body.length)]);
    res.end(body);
  });
});
server.listen(Number(process.argv[2] ?? 0), "127.0.0.1", () => {
  console.log((server.address() as AddressInfo).port);
});
