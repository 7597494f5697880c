/** What is answered to bytes that are not an HTTP request: there is no exchange yet, only a socket. */
import { randomUUID } from "node:crypto";
import type { Socket } from "node:net";
import { STATUS_CODES } from "node:http";
import { refuse } from "../errors.ts";

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

/** Answers with the canonical envelope and closes, whatever else the client sent behind. */
export function answerBadRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  const answering = "_httpMessage" in socket && socket._httpMessage !== null;
  // An answer under way must not be mixed with this one; a reset peer hears nothing.
  if (!socket.writable || answering || error.code === "ECONNRESET") {
    socket.destroy();
    return;
  }
  const status = statusOf[error.code ?? ""] ?? 400;
  const { body } = refuse("GATEWAY_INVALID_PARAMS", { status, message: messageOf[status] });
  const text = String(body);
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Bad Request"}\r\n` +
      `x-request-id: ${randomUUID()}\r\ncontent-type: application/json\r\nconnection: close\r\n` +
      `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}
