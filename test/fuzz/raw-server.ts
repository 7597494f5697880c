/** A model server on a raw socket, which can send any bytes as an answer. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";

export interface RawAnswer {
  readonly pieces: readonly Buffer[];
  readonly staysOpen: boolean;
}

export interface RawServer extends AsyncDisposable {
  readonly url: string;
  answer: RawAnswer;
  /** Resolves when every connection that the server has ended is closed, so that its client has noticed the end. */
  ended(): Promise<void>;
}

/** `models`: the body of the answer to every GET. */
export async function startRawServer(models: string): Promise<RawServer> {
  const sockets = new Set<Socket>();
  const sending = new Set<Promise<void>>();
  const catalogue: RawAnswer = { pieces: [httpAnswer(200, models)], staysOpen: true };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    let text = "";
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
      if (end === -1 || text.length < end + 4 + length) return;
      const isChat = text.startsWith("POST");
      text = "";
      const sent = send(socket, isChat ? raw.answer : catalogue);
      sending.add(sent);
      void sent.then(() => sending.delete(sent));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A listening TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  const raw: RawServer = {
    url: `http://127.0.0.1:${port}`,
    answer: catalogue,
    async ended() {
      await Promise.all(sending);
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  return raw;
}

async function send(socket: Socket, { pieces, staysOpen }: RawAnswer): Promise<void> {
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise(setImmediate);
  }
  if (staysOpen || socket.destroyed) return;
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  socket.once("close", () => resolve());
  socket.end();
  await closed;
}

export function httpAnswer(
  status: number,
  body: string | Buffer,
  contentType = "application/json",
): Buffer {
  const head = `HTTP/1.1 ${status} X\r\ncontent-type: ${contentType}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}
