/** A WebSocket that carries one session, and the session behind it (confidential-stream.md, 5: "Gateway to worker"). */
import type { Socket } from "node:net";
import type { WebSocket } from "ws";
import { openEnclaveSession } from "../enclave/session.ts";
import type { EnclaveSession, EnclaveSessionParts } from "../enclave/session.ts";
import { errorFrame } from "../protocol/fault.ts";

/** How long the other end may take to answer the closing handshake. */
const closeMs = 5_000;
/** A gateway that waits for a slow client reads no pings; unasked it says as often that it is there. */
const mostUnanswered = 2;

export interface StreamSocket {
  /** The model that is answering; undefined: none is. */
  readonly answering: string | undefined;
  /** Asks for a sign of life; cuts it when two have not been answered. */
  ping(): void;
  /** Ends once nothing runs. */
  stop(): void;
  terminate(): void;
}

/** `gone` is told when it has ended. */
export function carrySession(
  webSocket: WebSocket,
  socket: Socket,
  parts: EnclaveSessionParts,
  gone: () => void,
): StreamSocket {
  let unanswered = 0;
  let closing: Disposable | undefined;
  const session: EnclaveSession = openEnclaveSession(parts, {
    text: (frame) => webSocket.send(frame),
    binary(frame) {
      webSocket.send(frame);
      return !socket.writableNeedDrain;
    },
    close(code, error) {
      if (error !== undefined) webSocket.send(errorFrame({ kind: "fault", ...error }));
      webSocket.close(code);
      closing = parts.clock.after(closeMs, () => webSocket.terminate());
    },
  });
  webSocket.on("message", (data, isBinary) => {
    // The default `binaryType` gives Buffers.
    const bytes = data as Buffer;
    if (isBinary) session.binary(bytes);
    else session.text(bytes);
  });
  webSocket.on("pong", () => {
    unanswered = 0;
  });
  // What is wrong with a frame, or with the socket: `ws` closes by itself, with the code that RFC 6455 has for it.
  webSocket.on("error", () => {});
  webSocket.on("close", () => {
    closing?.[Symbol.dispose]();
    session.left();
    gone();
  });
  socket.on("drain", () => session.drained());
  return {
    get answering() {
      return session.answering;
    },
    ping() {
      if (unanswered === mostUnanswered) return webSocket.terminate();
      unanswered++;
      webSocket.ping();
    },
    stop: () => session.stop(),
    terminate: () => webSocket.terminate(),
  };
}
