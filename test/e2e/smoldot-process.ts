/**
 * Runs the light client smoldot as a node: its own JSON-RPC server behind a WebSocket. It is offline, so its chain has only
 * the first block. Sends its URL to the parent and ends with it.
 */
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { start, type Chain } from "smoldot";
import { WebSocketServer, type WebSocket } from "ws";
import { specsFolder } from "./chopsticks.ts";
import { healthyNode } from "./rpc-node.ts";

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

process.once("disconnect", () => process.exit(0));
const text = await readFile(new URL("polkadot-coretime.json", specsFolder), "utf8");
// Without its relay chain, smoldot treats the chain as one of its own, which needs no other node to begin.
const { relay_chain: _, para_id: __, ...spec } = JSON.parse(text) as Record<string, unknown>;
const chainSpec = JSON.stringify({ ...spec, bootNodes: [] });
const client = start({
  forbidTcp: true,
  forbidWs: true,
  forbidNonLocalWs: true,
  forbidWss: true,
  forbidWebRtc: true,
  logCallback() {},
});

/** Every connection has a chain for itself, because a chain has one client. */
function serve(socket: WebSocket): void {
  let chain: Promise<Chain> | undefined;
  socket.on("error", () => {});
  socket.on("close", () => {
    void chain?.then((opened) => opened.remove());
  });
  socket.on("message", (data) => {
    const call = (data as Buffer).toString();
    const { id, method, params } = JSON.parse(call) as Call;
    // The probes of the gateway. Without peers, smoldot reports that it is syncing.
    const result = healthyNode[method]?.(params);
    if (result !== undefined) return socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
    chain ??= open(socket);
    void chain.then((opened) => {
      if (socket.readyState === socket.OPEN) opened.sendJsonRpc(call);
    });
  });
}

async function open(socket: WebSocket): Promise<Chain> {
  const chain = await client.addChain({ chainSpec });
  void forward(chain, socket);
  return chain;
}

/** Never rejects. */
async function forward(chain: Chain, socket: WebSocket): Promise<void> {
  try {
    for (;;) socket.send(await chain.nextJsonRpcResponse());
  } catch {
    // The chain was removed.
  }
}

const server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
server.on("connection", serve);
await once(server, "listening");
// A listening TCP server has an address of this form.
const { port } = server.address() as { readonly port: number };
process.send?.(`ws://127.0.0.1:${port}`);
