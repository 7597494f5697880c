/** A TCP server that reads HTTP requests and passes each to a script, which writes any bytes to the socket. */
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";

export interface RpcCall {
  readonly id: number;
  readonly method: string;
  readonly params: unknown;
}

export interface Received {
  readonly head: string;
  readonly body: string;
  readonly socket: net.Socket;
  /** Number of requests on this connection, including this one. */
  readonly nth: number;
  readonly call: () => RpcCall;
  readonly calls: () => readonly RpcCall[];
}

export type Script = (received: Received) => void;

export interface ScriptedNode extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  script: Script;
  readonly received: Received[];
  /** Number of connections that were accepted, and of those open now. */
  connections: number;
  readonly open: Set<net.Socket>;
  /** Resolves when `n` requests have arrived in total. */
  seen(n: number): Promise<void>;
  deserted(): Promise<void>;
  close(): Promise<void>;
}

export async function startNode(
  script: Script,
  options: { readonly tls?: tls.TlsOptions; readonly port?: number; readonly host?: string } = {},
): Promise<ScriptedNode> {
  const { host = "127.0.0.1" } = options;
  const waiters: { readonly n: number; readonly resolve: () => void }[] = [];
  const desertions: (() => void)[] = [];
  const accept = (socket: net.Socket): void => {
    node.connections++;
    node.open.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => {});
    socket.on("close", () => {
      node.open.delete(socket);
      if (node.open.size === 0) for (const resolve of desertions.splice(0)) resolve();
    });
    readRequests(socket, (received) => {
      node.received.push(received);
      for (const { n, resolve } of waiters) if (node.received.length >= n) resolve();
      node.script(received);
    });
  };
  const server =
    options.tls === undefined ? net.createServer(accept) : tls.createServer(options.tls, accept);
  server.listen(options.port ?? 0, host);
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not listening on TCP");
  const name = host.includes(":") ? `[${host}]` : host;
  const node: ScriptedNode = {
    port: address.port,
    url: `${options.tls === undefined ? "http" : "https"}://${name}:${address.port}`,
    script,
    received: [],
    connections: 0,
    open: new Set(),
    seen: (n) =>
      node.received.length >= n
        ? Promise.resolve()
        : new Promise((resolve) => waiters.push({ n, resolve })),
    deserted: () =>
      node.open.size === 0 ? Promise.resolve() : new Promise((resolve) => desertions.push(resolve)),
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of node.open) socket.destroy();
      await closed;
    },
    async [Symbol.asyncDispose]() {
      if (server.listening) await node.close();
    },
  };
  return node;
}

function readRequests(socket: net.Socket, onRequest: (received: Received) => void): void {
  let bytes = Buffer.alloc(0);
  let nth = 0;
  socket.on("data", (piece: Buffer) => {
    bytes = Buffer.concat([bytes, piece]);
    for (;;) {
      const headEnd = bytes.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const head = bytes.toString("latin1", 0, headEnd);
      const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? Number.NaN);
      if (bytes.length < headEnd + 4 + length) return;
      const body = bytes.toString("utf8", headEnd + 4, headEnd + 4 + length);
      bytes = bytes.subarray(headEnd + 4 + length);
      nth++;
      onRequest({
        head,
        body,
        socket,
        nth,
        call: () => JSON.parse(body) as RpcCall,
        calls: () => JSON.parse(body) as readonly RpcCall[],
      });
    }
  });
}

export function response(body: string, head = "HTTP/1.1 200 OK"): string {
  return `${head}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Returns a JSON-RPC answer. `result` is JSON text. */
export function result(id: number, text: string): string {
  return `{"jsonrpc":"2.0","id":${id},"result":${text}}`;
}

export function failure(id: number | null, error: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error });
}

export const echo: Script = (received) => {
  const { id, method } = received.call();
  received.socket.write(response(result(id, JSON.stringify(method))));
};

/** The state of a Substrate node that the probe reads. Tests may change the members while it runs. */
export interface Chain {
  genesis: string;
  best: number;
  finalized: number;
  syncing: boolean;
  peers: number;
  shouldHavePeers: boolean;
  specVersion: number;
  version: string;
}

export function createChain(over: Partial<Chain> = {}): Chain {
  return {
    genesis: "0x00aa",
    best: 100,
    finalized: 98,
    syncing: false,
    peers: 5,
    shouldHavePeers: true,
    specVersion: 1,
    version: "1.0.0",
    ...over,
  };
}

const extrinsicIndexKey = "0x3a65787472696e7369635f696e646578";

const hex = (n: number): string => `"0x${n.toString(16)}"`;

/** Returns the JSON text of the chain's answer to a call of the probe. Undefined for any other call. */
export function probeResult(chain: Chain, call: RpcCall): string | undefined {
  const params = call.params as readonly unknown[];
  switch (call.method) {
    case "system_health":
      return JSON.stringify({
        peers: chain.peers,
        isSyncing: chain.syncing,
        shouldHavePeers: chain.shouldHavePeers,
      });
    case "chain_getHeader":
      return `{"number":${hex(params.length === 0 ? chain.best : chain.finalized)}}`;
    case "chain_getFinalizedHead":
      return '"0xf1"';
    case "chain_getBlockHash":
      return JSON.stringify(chain.genesis);
    case "state_getStorage":
      // The state depth of the node is measured with this key. All other reads are calls of the test.
      return params[0] === extrinsicIndexKey ? "null" : undefined;
    case "system_version":
      return JSON.stringify(chain.version);
    case "state_getRuntimeVersion":
      return JSON.stringify({ specName: "test", specVersion: chain.specVersion });
    default:
      return undefined;
  }
}

/** Answers the probe with `chain`, and passes every other call to `script`. */
export function onChain(chain: Chain, script: Script = echo): Script {
  return (received) => {
    const call = received.call();
    const text = probeResult(chain, call);
    if (text === undefined) script(received);
    else received.socket.write(response(result(call.id, text)));
  };
}
