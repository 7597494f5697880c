/** A WebSocket to a worker's enclave (confidential-stream.md section 5, "Gateway to worker"). */
import type { Socket } from "node:net";
import { Liveness, messageLimits, pingMs } from "sluice-gateway/internal/http";
import type { Clock, Log } from "sluice-gateway/plugin";
import { runGuarded } from "sluice-gateway/internal/toolkit";
import { WebSocket } from "ws";
import { workerSubprotocol } from "../protocol/hello.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import { LinkInbox, type EnclaveLink, type LinkListener } from "../confidential-relay/link.ts";

const closeMs = 5_000;

export interface SocketOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Undefined if the connection fails, or if the other end is not a worker. Never rejects. */
export function connectWorker(options: SocketOptions): Promise<EnclaveLink | undefined> {
  const webSocket = openWebSocket(options);
  if (webSocket === undefined) return Promise.resolve(undefined);
  const { promise, resolve } = Promise.withResolvers<EnclaveLink | undefined>();
  let socket: Socket | undefined;
  webSocket.on("upgrade", (response) => {
    ({ socket } = response);
  });
  // `handshakeTimeout` starts again with every byte of the worker's answer. This deadline does not.
  const deadline = options.clock.after(options.connectMs, () => webSocket.terminate());
  webSocket.on("error", () => resolve(undefined));
  // Some failures emit `close` without `error`.
  webSocket.on("close", () => resolve(undefined));
  webSocket.on("open", () => {
    if (socket !== undefined && webSocket.protocol === workerSubprotocol) {
      return resolve(new WorkerSocket(webSocket, socket, options));
    }
    webSocket.terminate();
    return resolve(undefined);
  });
  return promise.finally(() => deadline[Symbol.dispose]());
}

/**
 * Undefined if the library refuses the URL, for example because it has a fragment: a status document can contain any
 * URL.
 */
function openWebSocket({ url, headers, connectMs }: SocketOptions): WebSocket | undefined {
  try {
    return new WebSocket(url, [workerSubprotocol], {
      headers,
      handshakeTimeout: connectMs,
      followRedirects: false,
      // Compression does not make ciphertext shorter.
      perMessageDeflate: false,
      ...messageLimits(maxTextBytes),
    });
  } catch {
    return undefined;
  }
}

class WorkerSocket implements EnclaveLink {
  readonly #webSocket: WebSocket;
  readonly #socket: Socket;
  readonly #inbox = new LinkInbox();
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #liveness: Liveness;
  readonly #pings: Disposable;
  #paused = false;
  #closing: Disposable | undefined;

  constructor(
    webSocket: WebSocket,
    socket: Socket,
    { clock, log }: Pick<SocketOptions, "clock" | "log">,
  ) {
    this.#webSocket = webSocket;
    this.#socket = socket;
    this.#clock = clock;
    this.#log = log;
    this.#liveness = new Liveness(webSocket);
    this.#pings = clock.every(pingMs, () => this.#ping());
    webSocket.on("message", (data, isBinary) => {
      // With the default `binaryType`, messages are Buffers.
      const frame = data as Buffer;
      if (this.#closing !== undefined) return;
      this.#contain(() => {
        if (isBinary) this.#inbox.binary(frame);
        else this.#inbox.deliver((listener) => listener.onText(frame));
      });
    });
    webSocket.on("close", () => {
      this.#pings[Symbol.dispose]();
      this.#closing?.[Symbol.dispose]();
      this.#contain(() => this.#deliver((listener) => listener.onEnd()));
    });
    socket.on("drain", () => this.#contain(() => this.#inbox.listener?.onDrain()));
    this.#updateReading();
  }

  get listener(): LinkListener | undefined {
    return this.#inbox.listener;
  }

  set listener(listener: LinkListener | undefined) {
    this.#inbox.listener = listener;
    this.#updateReading();
  }

  text(frame: Uint8Array): void {
    if (this.#isOpen()) this.#webSocket.send(frame, { binary: false });
  }

  binary(frame: Uint8Array): boolean {
    if (!this.#isOpen()) return true;
    this.#webSocket.send(frame, { binary: true });
    return !this.#socket.writableNeedDrain;
  }

  pause(): void {
    this.#paused = true;
    this.#updateReading();
  }

  resume(): void {
    this.#paused = false;
    this.#updateReading();
  }

  close(): void {
    if (this.#closing !== undefined) return;
    this.#closing = this.#clock.after(closeMs, () => this.#webSocket.terminate());
    this.#pings[Symbol.dispose]();
    // A paused socket would not receive the answer to the closing handshake.
    this.#webSocket.resume();
    this.#webSocket.close(1000);
  }

  /**
   * Without a listener, reading is paused. Otherwise a worker could send without limit while its evidence is being
   * verified.
   */
  get #isReadingPaused(): boolean {
    return this.#paused || this.#inbox.listener === undefined;
  }

  #updateReading(): void {
    // A socket that is closing must continue to read.
    if (this.#closing !== undefined) return;
    if (this.#isReadingPaused) this.#webSocket.pause();
    else this.#webSocket.resume();
  }

  /** Exceptions of the socket's callbacks end this connection, never the process. */
  #contain(run: () => void): void {
    runGuarded(run, (error) => {
      this.#log.error({ err: error }, "a session with a worker failed");
      this.#webSocket.terminate();
    });
  }

  #deliver(notify: (listener: LinkListener) => void): void {
    if (this.#closing === undefined) this.#inbox.deliver(notify);
  }

  #isOpen(): boolean {
    return this.#webSocket.readyState === WebSocket.OPEN;
  }

  #ping(): void {
    // While reading is paused, neither the worker's pongs nor its pings arrive. An unsolicited pong shows the worker
    // that this end is still connected.
    if (this.#isReadingPaused) return this.#webSocket.pong();
    if (!this.#liveness.ping()) this.#webSocket.terminate();
  }
}
