import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { LiveExchange } from "../../../src/pipeline/run/exchange.ts";
import type { Exchange } from "../../../src/plugin.ts";

export function cameFast(x: Exchange): boolean {
  // The pipeline runs only live exchanges.
  return Buffer.isBuffer((x as LiveExchange).arrival.body);
}

/** The gateway's end of the connection. */
export function socketOf(x: Exchange): Socket {
  return (x as LiveExchange).arrival.req.socket as Socket;
}

export async function open(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

/** Opens a connection that node:http handles from its first request on, because the fast path does not accept HEAD. */
export async function openSlow(port: number): Promise<Socket> {
  const socket = await open(port);
  socket.write("HEAD /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
  await readUntil(socket, (text) => text.endsWith("\r\n\r\n"));
  return socket;
}

/** Reads latin1 text until `enough` returns true or the connection ends. */
export async function readUntil(
  socket: Socket,
  enough: (text: string) => boolean,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let text = "";
  const onData = (bytes: Buffer): void => {
    text += bytes.toString("latin1");
    if (enough(text)) resolve();
  };
  socket.on("data", onData);
  socket.once("close", resolve);
  await promise;
  socket.off("data", onData);
  socket.off("close", resolve);
  return text;
}

/** Sends `request` and reads until the connection ends, which the request has to ask for. */
export async function exchange(socket: Socket, request: string | Buffer): Promise<string> {
  socket.write(request);
  return withoutTime(await readUntil(socket, () => false));
}

export function withoutTime(text: string): string {
  return text
    .replaceAll(/^Date: .{29}\r$/gm, "Date: then\r")
    .replaceAll(/^x-request-id: [0-9a-f-]{36}\r$/gm, "x-request-id: one\r");
}
