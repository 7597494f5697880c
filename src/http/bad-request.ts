/** Answers bytes that are not an HTTP request. At that point there is a socket, but no exchange. */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { ServerResponse, STATUS_CODES } from "node:http";
import { refuse } from "../base/errors.ts";

const statusOf: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};

const messageOf: Readonly<Record<number, string>> = {
  400: "malformed request",
  408: "the request head took too long",
  413: "chunk extensions are too large",
  431: "the request head is too large",
};

const closing = new WeakSet<Socket>();

/** Answers with the canonical envelope and closes the connection. Later bytes from the client are ignored. */
export function answerBadRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  if (closing.has(socket)) return;
  const response = responseOn(socket);
  if (response !== undefined) return closeAfter(response, socket);
  const status = statusOf[error.code ?? ""] ?? 400;
  const { body } = refuse("GATEWAY_INVALID_PARAMS", { status, message: messageOf[status] });
  const text = String(body);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Bad Request"}\r\n` +
      `x-request-id: ${randomUUID()}\r\ncontent-type: application/json\r\nconnection: close\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

/** Returns the current response on a socket of node:http. Responses to pipelined requests follow one by one. */
export function responseOn(socket: Socket): ServerResponse | undefined {
  const current = "_httpMessage" in socket ? socket._httpMessage : undefined;
  return current instanceof ServerResponse ? current : undefined;
}

/**
 * Delivers the answers to the requests before the malformed bytes, because they may have had effects. A request whose
 * own body is malformed gets no answer, because its response may already be partly written.
 */
function closeAfter(response: ServerResponse, socket: Socket): void {
  if (!response.req.complete) {
    socket.destroy();
    return;
  }
  closing.add(socket);
  response.once("finish", () => {
    const next = responseOn(socket);
    if (next === undefined) socket.destroySoon();
    else closeAfter(next, socket);
  });
}
