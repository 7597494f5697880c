/**
 * The WebSocket of a session, by default the global `WebSocket` of browsers and Node. The unread messages are bounded,
 * and the end of the connection is also a message.
 */
import { plainCloseCodes } from "../protocol/fault.ts";
import { utf8 } from "../protocol/encoding.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { ConfidentialError } from "./failure.ts";

export type StreamMessage =
  | { readonly kind: "text" | "binary"; readonly bytes: Bytes }
  /** The last message; every further read returns it again. `code`: the close code. */
  | { readonly kind: "closed"; readonly code: number };

export interface StreamSocket {
  /** The subprotocol that the server selected. Empty if it selected none. */
  readonly protocol: string;
  /** False as soon as one end has begun to close the connection. */
  readonly isOpen: boolean;
  /** Allows one caller at a time. */
  next(): Promise<StreamMessage>;
  send(data: string | Bytes): void;
  /** Resolves when at most 1 MiB is waiting to be sent, or the connection is closed. */
  flushed(): Promise<void>;
  /** The next message is `closed`, without a delay. */
  close(code: number): void;
  readonly closed: Promise<void>;
}

export interface SocketRequest {
  readonly url: string;
  readonly protocols: string[];
  /** Only Node's WebSocket can send headers. Undefined in browsers. */
  readonly headers: Record<string, string> | undefined;
  readonly signal: AbortSignal;
}

/**
 * Opens a WebSocket like the global one. `refuse`: sets the error for a connection that cannot be opened, if more is
 * known than the global WebSocket reports.
 */
export type OpenWebSocket = (
  request: SocketRequest,
  refuse: (error: ConfidentialError) => void,
) => WebSocket;

/**
 * Maximum size of messages that arrive faster than they are decrypted, or between requests. A browser's WebSocket has
 * no backpressure.
 */
const maxUnreadBytes = 64 * 1024 * 1024;
const maxUnsentBytes = 1024 * 1024;
/** The interval for polling `bufferedAmount`, because WebSocket has no event for sent data. */
const flushPollMs = 5;

/** Rejects with a ConfidentialError, or with the signal's reason. */
export async function openSocket(
  request: SocketRequest,
  openWebSocket: OpenWebSocket,
): Promise<StreamSocket> {
  const { signal } = request;
  signal.throwIfAborted();
  let failure = failedConnection();
  const socket = createSocket(() => openWebSocket(request, (refusal) => (failure = refusal)));
  const stream = readMessages(socket);
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => {
      // Rejected first, because the event `close` may follow at once. The reason may have any type.
      reject(signal.reason as Error);
      socket.close();
    };
    const fail = (): void => {
      signal.removeEventListener("abort", abort);
      reject(failure);
    };
    signal.addEventListener("abort", abort, { once: true });
    socket.addEventListener("close", fail, { once: true });
    socket.addEventListener("open", () => {
      signal.removeEventListener("abort", abort);
      socket.removeEventListener("close", fail);
      resolve();
    });
  });
  return stream;
}

/** The global WebSocket does not report why the gateway has refused a connection. */
export const openGlobalWebSocket: OpenWebSocket = ({ url, protocols, headers }) =>
  new WebSocket(url, headers === undefined ? protocols : { protocols, headers });

function createSocket(open: () => WebSocket): WebSocket {
  try {
    const socket = open();
    socket.binaryType = "arraybuffer";
    return socket;
  } catch {
    // The constructor throws, for example, if a page that was served over https opens an unencrypted connection.
    throw failedConnection();
  }
}

function failedConnection(): ConfidentialError {
  return new ConfidentialError("CONNECTION_FAILED", "the connection cannot be opened");
}

function readMessages(socket: WebSocket): StreamSocket {
  const unread: StreamMessage[] = [];
  let unreadBytes = 0;
  let waiting: ((message: StreamMessage) => void) | undefined;
  let end: StreamMessage | undefined;
  const { promise: closed, resolve: setClosed } = Promise.withResolvers<void>();

  function finish(code: number): void {
    end ??= { kind: "closed", code };
    waiting?.(end);
    waiting = undefined;
  }

  function receive(message: Exclude<StreamMessage, { kind: "closed" }>): void {
    if (end !== undefined) return;
    if (waiting !== undefined) {
      waiting(message);
      waiting = undefined;
      return;
    }
    unread.push(message);
    unreadBytes += message.bytes.length;
    if (unreadBytes > maxUnreadBytes) close(plainCloseCodes.tooBig);
  }

  function close(code: number): void {
    unread.length = 0;
    finish(code);
    // Browsers allow a page only the codes 1000 and 3000 to 4999.
    socket.close(code >= 3000 ? code : plainCloseCodes.ok);
  }

  socket.addEventListener("message", (event) => {
    const data: unknown = event.data;
    if (data instanceof ArrayBuffer) receive({ kind: "binary", bytes: new Uint8Array(data) });
    else if (typeof data === "string" && data.length <= maxTextBytes) {
      receive({ kind: "text", bytes: utf8(data) });
    } else close(plainCloseCodes.tooBig);
  });
  socket.addEventListener("close", ({ code }) => {
    finish(code);
    setClosed();
  });
  // The event `close` follows each error. Without a listener, Node would report the error as unhandled.
  socket.addEventListener("error", () => undefined);

  return {
    get protocol() {
      return socket.protocol;
    },
    get isOpen() {
      return end === undefined && socket.readyState === socket.OPEN;
    },
    next() {
      const message = unread.shift() ?? end;
      if (message === undefined) return new Promise((resolve) => (waiting = resolve));
      if (message.kind !== "closed") unreadBytes -= message.bytes.length;
      return Promise.resolve(message);
    },
    send: (data) => socket.send(data),
    async flushed() {
      while (socket.readyState === socket.OPEN && socket.bufferedAmount > maxUnsentBytes) {
        await new Promise((resolve) => setTimeout(resolve, flushPollMs));
      }
    },
    close,
    closed,
  };
}
