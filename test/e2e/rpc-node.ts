/** A JSON-RPC node for tests, which gives the configured answers and counts its calls. */
import { createServer, type Server } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

export interface RpcCall {
  readonly id: unknown;
  readonly method: string;
  readonly params?: readonly unknown[];
}

/** A result, or a promise of one. For `undefined` and for missing methods the answer is -32601. */
export type Answers = Readonly<Record<string, (params: readonly unknown[]) => unknown>>;

export interface RpcNode extends AsyncDisposable {
  readonly url: string;
  /** Every call received, probes included, in order. */
  readonly calls: RpcCall[];
}

const head = 100;
const hash = (n: number): string => `0x${n.toString(16).padStart(64, "0")}`;

/** Enough for a node to be healthy: block 100 is the best and the finalized block. */
export const healthyNode: Answers = {
  system_chain: () => "Test",
  system_health: () => ({ peers: 3, isSyncing: false, shouldHavePeers: true }),
  chain_getBlockHash: ([n]) => hash(typeof n === "number" ? n : head),
  chain_getFinalizedHead: () => hash(head),
  chain_getHeader: ([at]) => ({ number: `0x${Number(at ?? head).toString(16)}` }),
  state_getRuntimeVersion: () => ({ specName: "test", specVersion: 1 }),
  rpc_methods: () => ({ methods: [] }),
};

export async function startRpcNode(answers: Answers = {}): Promise<RpcNode> {
  const known: Answers = { ...healthyNode, ...answers };
  const calls: RpcCall[] = [];
  const answer = async (call: RpcCall): Promise<object> => {
    calls.push(call);
    const result = await known[call.method]?.(call.params ?? []);
    return result === undefined
      ? { jsonrpc: "2.0", id: call.id, error: { code: -32601, message: "Method not found" } }
      : { jsonrpc: "2.0", id: call.id, result };
  };
  const server = createServer((req, res) => {
    let text = "";
    req.setEncoding("utf8");
    req.on("data", (chunk: string) => (text += chunk));
    req.on("end", () => {
      const asked = JSON.parse(text) as RpcCall | RpcCall[];
      const answered = Array.isArray(asked) ? Promise.all(asked.map(answer)) : answer(asked);
      void answered.then((body) =>
        res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body)),
      );
    });
  });
  return { url: await listening(server), calls, [Symbol.asyncDispose]: () => closed(server) };
}

export async function listening(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export async function closed(server: Server): Promise<void> {
  const done = once(server, "close");
  server.close();
  server.closeAllConnections();
  await done;
}
