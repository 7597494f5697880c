/**
 * A WebSocket to a node, for calls or for subscriptions. It matches the answers of the node with the calls by id. It is
 * not opened again when it is lost.
 */
import { Liveness, malformed, pingMs, skipSpace, skipValue } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import { guarded } from "sluice-gateway/internal/toolkit";
import { WebSocket, type RawData } from "ws";
import type { Failure, NodeCall } from "./node-call.ts";
import { basicCredentials } from "./request-head.ts";
import { splitResponse } from "./split-response.ts";

export interface NodeConnectionOptions {
  readonly url: URL;
  readonly clock: Clock;
  readonly connectMs: number;
  readonly messageBytes: number;
  /** True if messages are passed on as text, so every byte of them must be valid JSON. */
  readonly isStrict: boolean;
  readonly onOpen: () => void;
  /** Called with each message that is not an answer. If it throws, the connection is lost. */
  readonly onOther: (bytes: Buffer) => void;
  /**
   * Called at most once, and not after `close`, which must be called then. `code`: the code of the system or of `ws`, if
   * there is one.
   */
  readonly onLost: (kind: ConnectionLoss, code: string | undefined) => void;
}

type ConnectionLoss = "connectTimeout" | "idleTimeout" | "closed" | "garbage";

export class NodeConnection {
  /** Calls without an answer by id, oldest first. */
  readonly calls = new Map<number, NodeCall>();
  hasAnswered = false;
  readonly #options: NodeConnectionOptions;
  readonly #socket: WebSocket;
  readonly #liveness: Liveness;
  readonly #timers: readonly Disposable[];
  #nextId = 0;
  #isPaused = false;
  #isClosed = false;

  constructor(options: NodeConnectionOptions) {
    const { url, clock, connectMs, messageBytes, isStrict } = options;
    const credentials = basicCredentials(url);
    const address = new URL(url);
    address.username = address.password = "";
    const socket = new WebSocket(address, {
      perMessageDeflate: false,
      maxPayload: messageBytes,
      // `splitResponse` checks the bytes of answers.
      skipUTF8Validation: !isStrict,
      ...(credentials === undefined ? {} : { headers: { authorization: `Basic ${credentials}` } }),
    });
    this.#options = options;
    this.#socket = socket;
    this.#liveness = new Liveness(socket);
    const connecting = clock.after(connectMs, () => this.#lose("connectTimeout"));
    this.#timers = [connecting, clock.every(pingMs, () => this.#ping())];
    socket.on("open", () => {
      connecting[Symbol.dispose]();
      if (this.#isClosed) return;
      options.onOpen();
      for (const call of this.calls.values()) {
        call.onCarrier(undefined);
        this.#write(call);
      }
    });
    socket.on("error", ({ code }: NodeJS.ErrnoException) => this.#lose("closed", code));
    socket.on("close", () => this.#lose("closed"));
    // With the default binaryType, a message is one Buffer.
    const onMessage = (data: RawData): void => {
      this.#liveness.confirm();
      if (!this.#isClosed) this.#message(data as Buffer);
    };
    socket.on(
      "message",
      guarded(onMessage, () => this.#lose("garbage")),
    );
  }

  get isOpen(): boolean {
    return !this.#isClosed && this.#socket.readyState === WebSocket.OPEN;
  }

  get unsentBytes(): number {
    return this.#socket.bufferedAmount;
  }

  /** Ids are limited to 30 bits, which V8 stores without an allocation. */
  send(call: NodeCall): void {
    this.#nextId = (this.#nextId + 1) & 0x3fff_ffff;
    call.id = this.#nextId;
    this.calls.set(call.id, call);
    if (this.isOpen) return this.#write(call);
    call.onCarrier({ hasSent: false, abort: () => this.calls.delete(call.id) });
  }

  pause(): void {
    this.#isPaused = true;
    this.#socket.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#liveness.confirm();
    this.#socket.resume();
  }

  /** The calls without an answer fail. Resolves when the socket has closed. */
  close(failure: Failure, cause?: UpstreamFailure): Promise<void> {
    this.#terminate();
    const calls = [...this.calls.values()];
    this.calls.clear();
    for (const call of calls) {
      call.onCarrier(undefined);
      call.onError(failure, cause);
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    if (this.#socket.readyState === WebSocket.CLOSED) resolve();
    else this.#socket.once("close", resolve);
    return promise;
  }

  #write(call: NodeCall): void {
    this.#socket.send(call.text(), () => {});
  }

  #message(bytes: Buffer): void {
    const { isStrict, onOther } = this.#options;
    if (isStrict && !isJson(bytes, "strict")) return this.#lose("garbage", "not JSON");
    const answer = splitResponse(bytes);
    if (answer === undefined) return onOther(bytes);
    this.hasAnswered = true;
    const call = this.calls.get(answer.id);
    if (call === undefined) return;
    this.calls.delete(answer.id);
    call.onAnswer(answer.kind, bytes, answer.start, answer.end);
  }

  #ping(): void {
    // No pings are sent while the socket is paused, because a pong would not be read.
    if (!this.isOpen || this.#isPaused) return;
    if (!this.#liveness.ping()) this.#lose("idleTimeout");
  }

  #lose(kind: ConnectionLoss, code?: string): void {
    if (this.#isClosed) return;
    this.#terminate();
    this.#options.onLost(kind, code);
  }

  #terminate(): void {
    this.#isClosed = true;
    for (const timer of this.#timers) timer[Symbol.dispose]();
    this.#socket.terminate();
  }
}

/** `trusted`: the value itself is checked only for its end. */
export function isJson(bytes: Buffer, mode: "strict" | "trusted"): boolean {
  const end = skipValue(bytes, skipSpace(bytes, 0, bytes.length), bytes.length, 0, mode);
  return end !== malformed && skipSpace(bytes, end, bytes.length) === bytes.length;
}
