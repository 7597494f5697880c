/**
 * The WebSocket of a session, by the global one of browsers and Node: messages one after the other, what nobody has
 * read bounded, and the end as a message too.
 */
import { plainCloseCodes } from "../protocol/fault.ts";
import { utf8 } from "../protocol/layout.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { ConfidentialError } from "./failure.ts";

export type Message =
  | { readonly kind: "text" | "binary"; readonly bytes: Bytes }
  /** The last one, again and again. `code`: the close code. */
  | { readonly kind: "closed"; readonly code: number };

export interface StreamSocket {
  /** What the server selected; empty: nothing. */
  readonly protocol: string;
  /** One caller at a time. */
  next(): Promise<Message>;
  send(data: string | Bytes): void;
  /** Resolves when little enough waits to be sent, or the connection is gone. */
  flushed(): Promise<void>;
  /** What comes afterwards is `closed`, at once. */
  close(code: number): void;
  /** Resolves when the connection is gone. */
  readonly closed: Promise<void>;
}

export interface SocketRequest {
  readonly url: string;
  readonly protocols: string[];
  /** Node's WebSocket sends them; browsers know no such thing, and are given none. */
  readonly headers: Record<string, string> | undefined;
  readonly signal: AbortSignal;
}

/** Of messages that have come faster than they are opened, or between requests. No browser can make a server wait. */
const maxUnreadBytes = 64 * 1024 * 1024;
const maxUnsentBytes = 1024 * 1024;
/** A WebSocket says how much waits, and not when it has gone. */
const flushPollMs = 5;

/** Rejects with CONNECTION_FAILED, or with the signal's reason. */
export async function openSocket(request: SocketRequest): Promise<StreamSocket> {
  const { url, protocols, headers, signal } = request;
  signal.throwIfAborted();
  const socket = createSocket(url, headers === undefined ? protocols : { protocols, headers });
  const stream = readMessages(socket);
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => {
      socket.close();
      // The caller's own reason, whatever it is.
      reject(signal.reason as Error);
    };
    const fail = (): void => {
      signal.removeEventListener("abort", abort);
      reject(failedConnection());
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

function createSocket(url: string, options: string[] | WebSocketInit): WebSocket {
  try {
    const socket = new WebSocket(url, options);
    socket.binaryType = "arraybuffer";
    return socket;
  } catch {
    // A page of https may not open it in the clear, for one.
    throw failedConnection();
  }
}

function failedConnection(): ConfidentialError {
  return new ConfidentialError("CONNECTION_FAILED", "the connection cannot be opened");
}

function readMessages(socket: WebSocket): StreamSocket {
  const unread: Message[] = [];
  let unreadBytes = 0;
  let waiting: ((message: Message) => void) | undefined;
  let end: Message | undefined;
  const { promise: closed, resolve: setClosed } = Promise.withResolvers<void>();

  function finish(code: number): void {
    end ??= { kind: "closed", code };
    waiting?.(end);
    waiting = undefined;
  }

  function take(message: Exclude<Message, { kind: "closed" }>): void {
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
    // Browsers let a page say 1000, and 3000 to 4999.
    socket.close(code >= 3000 ? code : plainCloseCodes.ok);
  }

  socket.addEventListener("message", (event) => {
    const data: unknown = event.data;
    if (data instanceof ArrayBuffer) take({ kind: "binary", bytes: new Uint8Array(data) });
    else if (typeof data === "string" && data.length <= maxTextBytes) {
      take({ kind: "text", bytes: utf8(data) });
    } else close(plainCloseCodes.tooBig);
  });
  socket.addEventListener("close", ({ code }) => {
    finish(code);
    setClosed();
  });
  // An error is followed by its close; Node would complain of one that nobody hears.
  socket.addEventListener("error", () => undefined);

  return {
    get protocol() {
      return socket.protocol;
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
