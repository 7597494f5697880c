/** Serves one session over one WebSocket (confidential-stream.md, 5: "Gateway to worker"). */
import type { Socket } from "node:net";
import { Liveness } from "sluice-gateway/internal/http";
import type { WebSocket } from "ws";
import { EnclaveSession, type EnclaveSessionDeps } from "../enclave/session.ts";
import { errorFrame } from "../protocol/fault.ts";

const closeMs = 5_000;
/**
 * A gateway that waits for a slow client does not read pings. It sends unsolicited pongs at the same interval instead.
 */
const maxUnansweredPings = 2;

export interface SessionSocket {
  readonly answering: string | undefined;
  /** Terminates the connection if the last two pings have not been answered. */
  ping(): void;
  /** Ends the session when no request is running. */
  stop(): void;
  terminate(): void;
}

export function serveSession(
  webSocket: WebSocket,
  socket: Socket,
  deps: EnclaveSessionDeps,
  onClose: () => void,
): SessionSocket {
  const liveness = new Liveness(webSocket, maxUnansweredPings);
  let closing: Disposable | undefined;
  const session: EnclaveSession = new EnclaveSession(deps, {
    text: (frame) => webSocket.send(frame),
    binary(frame) {
      webSocket.send(frame);
      return !socket.writableNeedDrain;
    },
    close(code, error) {
      if (error !== undefined) webSocket.send(errorFrame({ kind: "fault", ...error }));
      webSocket.close(code);
      closing = deps.clock.after(closeMs, () => webSocket.terminate());
    },
  });
  webSocket.on("message", (data, isBinary) => {
    // With the default `binaryType`, messages are Buffers.
    const bytes = data as Buffer;
    if (isBinary) session.binary(bytes);
    else session.text(bytes);
  });
  // After an error of a frame or of the socket, `ws` closes the connection itself, with the close code of RFC 6455.
  webSocket.on("error", () => {});
  webSocket.on("close", () => {
    closing?.[Symbol.dispose]();
    session.abort();
    onClose();
  });
  socket.on("drain", () => session.onDrain());
  return {
    get answering() {
      return session.answering;
    },
    ping() {
      if (!liveness.ping()) webSocket.terminate();
    },
    stop: () => session.stop(),
    terminate: () => webSocket.terminate(),
  };
}
