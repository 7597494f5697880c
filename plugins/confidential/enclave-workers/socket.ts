/** A WebSocket to a worker's enclave (confidential-stream.md section 5, "Gateway to worker"). */
import type { Socket } from "node:net";
import { WebSocket } from "ws";
import { workerSubprotocol } from "../protocol/hello.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import { LinkInbox, type EnclaveLink, type LinkListener } from "../relay/link.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";

/** A worker that has not answered a ping until the next one is gone. */
const pingMs = 20_000;
/** How long a worker may take to answer the closing handshake. */
const closeMs = 5_000;

export interface SocketOptions {
  readonly url: string;
  /** Such as `Authorization: Bearer …`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Undefined when no connection could be made, or the other end is not a worker. Never rejects. */
export function connectWorker(options: SocketOptions): Promise<EnclaveLink | undefined> {
  const webSocket = openWebSocket(options);
  if (webSocket === undefined) return Promise.resolve(undefined);
  const { promise, resolve } = Promise.withResolvers<EnclaveLink | undefined>();
  let socket: Socket | undefined;
  webSocket.on("upgrade", (response) => {
    ({ socket } = response);
  });
  // `handshakeTimeout` begins again with every byte of the worker's answer, and this does not.
  const deadline = options.clock.after(options.connectMs, () => webSocket.terminate());
  webSocket.on("error", () => resolve(undefined));
  // Not every end is announced by an error.
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

/** Undefined for an address that the library refuses, such as one with a fragment: a status document may name any. */
function openWebSocket({ url, headers, connectMs }: SocketOptions): WebSocket | undefined {
  try {
    return new WebSocket(url, [workerSubprotocol], {
      headers,
      handshakeTimeout: connectMs,
      followRedirects: false,
      // Compressed ciphertext is not shorter.
      perMessageDeflate: false,
      maxPayload: maxTextBytes,
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
  readonly #pings: Disposable;
  #alive = true;
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
    this.#pings = clock.every(pingMs, () => this.#ping());
    webSocket.on("pong", () => {
      this.#alive = true;
    });
    webSocket.on("message", (data, isBinary) => {
      // The default `binaryType` gives Buffers.
      const frame = data as Buffer;
      if (this.#closing !== undefined) return;
      this.#contain(() => {
        if (isBinary) this.#inbox.binary(frame);
        else this.#inbox.deliver((listener) => listener.text(frame));
      });
    });
    webSocket.on("close", () => {
      this.#pings[Symbol.dispose]();
      this.#closing?.[Symbol.dispose]();
      this.#contain(() => this.#deliver((listener) => listener.ended()));
    });
    socket.on("drain", () => this.#contain(() => this.#inbox.listener?.drained()));
    this.#readOrWait();
  }

  get listener(): LinkListener | undefined {
    return this.#inbox.listener;
  }

  set listener(listener: LinkListener | undefined) {
    this.#inbox.listener = listener;
    this.#readOrWait();
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
    this.#readOrWait();
  }

  resume(): void {
    this.#paused = false;
    this.#readOrWait();
  }

  close(): void {
    if (this.#closing !== undefined) return;
    this.#closing = this.#clock.after(closeMs, () => this.#webSocket.terminate());
    this.#pings[Symbol.dispose]();
    // A paused one would not see the answer to the closing handshake.
    this.#webSocket.resume();
    this.#webSocket.close(1000);
  }

  /** A worker whose evidence is being verified, so that nobody listens, could otherwise send without end. */
  get #isWaiting(): boolean {
    return this.#paused || this.#inbox.listener === undefined;
  }

  #readOrWait(): void {
    // A closing one reads on.
    if (this.#closing !== undefined) return;
    if (this.#isWaiting) this.#webSocket.pause();
    else this.#webSocket.resume();
  }

  /** Runs what the socket calls: what it throws ends this connection, never the process. */
  #contain(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#log.error({ err: error }, "a session with a worker broke");
      this.#webSocket.terminate();
    }
  }

  #deliver(notify: (listener: LinkListener) => void): void {
    if (this.#closing === undefined) this.#inbox.deliver(notify);
  }

  #isOpen(): boolean {
    return this.#webSocket.readyState === WebSocket.OPEN;
  }

  #ping(): void {
    // Its pong would wait with everything else, and so do its pings: it would take us for gone.
    if (this.#isWaiting) return this.#webSocket.pong();
    if (!this.#alive) return this.#webSocket.terminate();
    this.#alive = false;
    this.#webSocket.ping();
  }
}
