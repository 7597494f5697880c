import { once } from "node:events";
import type { IncomingMessage, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { authorityOf } from "./bind.ts";

/** Listens and returns `http://host:port`. `port`: 0 selects a free port. Rejects if the server cannot listen. */
export async function listen(server: Server, port: number, host: string): Promise<string> {
  server.listen(port, host);
  await once(server, "listening");
  // A server that listens on a port has an AddressInfo.
  const bound = server.address() as AddressInfo;
  return `http://${authorityOf(bound.address, bound.port)}`;
}

export async function close(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

/** Reads a whole body of at most `limit` bytes. Returns `left` if the client left before its end. */
export async function readBody(
  request: IncomingMessage,
  limit: number,
): Promise<Buffer | "too big" | "left"> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    // The connection must remain open after an early return, because the 413 must still be sent.
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      // Without an encoding a request yields Buffers.
      const piece = chunk as Buffer;
      bytes += piece.length;
      if (bytes > limit) return "too big";
      chunks.push(piece);
    }
  } catch {
    return "left";
  }
  return Buffer.concat(chunks);
}
