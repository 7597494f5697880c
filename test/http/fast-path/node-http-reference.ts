/** Reads the head of a request with node:http, as the reference for the fast path's own reader. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { connect, type AddressInfo, Socket } from "node:net";
import type { RequestHead } from "../../../src/http/fast-path/request-head.ts";

export type ReferenceHead = Pick<
  RequestHead,
  "method" | "url" | "headers" | "rawHeaders" | "keepsAlive"
>;

export interface NodeHttpReference extends Disposable {
  /** Reads a head without its final empty line. Undefined if node:http does not answer it as an ordinary request. */
  read(text: string): Promise<ReferenceHead | undefined>;
}

export async function startNodeHttpReference(): Promise<NodeHttpReference> {
  const waiting = new Map<number | undefined, (head: ReferenceHead | undefined) => void>();
  const server = createServer((req, res) => {
    const { method, url, headers, rawHeaders, socket } = req;
    const keepsAlive = res.shouldKeepAlive;
    waiting.get(socket.remotePort)?.({ method, url, headers, rawHeaders, keepsAlive });
    res.end();
  });
  for (const event of ["checkContinue", "checkExpectation", "upgrade", "connect"]) {
    server.on(event, (req: IncomingMessage) => waiting.get(req.socket.remotePort)?.(undefined));
  }
  server.on("clientError", (_, at) => {
    // Declared as a Duplex, but the connections of a TCP server are sockets.
    if (at instanceof Socket) waiting.get(at.remotePort)?.(undefined);
    at.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return {
    async read(text) {
      const client = connect(port, "127.0.0.1");
      client.on("error", () => {});
      await once(client, "connect");
      const { localPort } = client;
      const { promise, resolve } = Promise.withResolvers<ReferenceHead | undefined>();
      waiting.set(localPort, resolve);
      client.write(`${text}\r\n`, "latin1");
      try {
        return await promise;
      } finally {
        waiting.delete(localPort);
        client.destroy();
      }
    },
    [Symbol.dispose]() {
      server.close();
      server.closeAllConnections();
    },
  };
}

export function assertSameHead(read: ReferenceHead, expected: ReferenceHead): void {
  assert.equal(read.method, expected.method);
  assert.equal(read.url, expected.url);
  assert.deepEqual(read.headers, expected.headers);
  assert.deepEqual(read.rawHeaders, expected.rawHeaders);
  assert.equal(read.keepsAlive, expected.keepsAlive);
}
