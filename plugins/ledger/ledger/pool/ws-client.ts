/**
 * A WebSocket client for one node. One connection carries all calls concurrently; answers are matched by id. The client
 * connects at once and reconnects whenever the connection is lost.
 *
 * An answer arrives as a whole, so a call has `headersMs + idleMs` in total. A message larger than `answerBytes` cannot
 * be matched to its call, so it ends the connection.
 */
import { skipSpace, skipValue, startTicker, type Ticker } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import { splitResponse } from "./split-response.ts";
import type { NodeCall, NodeClient } from "./node-call.ts";
import { failures, type Failure } from "./failure.ts";
import type { ClientOptions } from "./http-client.ts";
import { NodeSocket } from "./node-socket.ts";

/** Maximum number of calls in flight. A node processes the calls of one connection concurrently. */
const maxCalls = 1024;
/** Maximum size of requests that are buffered because the node does not read them. */
const maxUnsentBytes = 16 * 1024 * 1024;
const reconnectMs = 100;
const maxReconnectMs = 10_000;

type State = "connecting" | "open" | "waiting";

export class WsClient implements NodeClient {
  readonly #options: ClientOptions;
  readonly #clock: Clock;
  readonly #ticker: Ticker;
  /** Calls in flight by id, oldest first. All have the same time limit, so the oldest expires first. */
  readonly #calls = new Map<number, NodeCall>();
  #state: State = "waiting";
  #closed = false;
  #socket: NodeSocket | undefined;
  /** Number of consecutive connections without an answer. */
  #failedConnections = 0;
  #reconnect: Disposable | undefined;
  #nextId = 0;
  /** System error code of the last failed connection. */
  #errno: string | undefined;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#ticker = startTicker(options.clock, [options.headersMs], () => this.#sweep());
    this.#connect();
  }

  get inFlight(): number {
    return this.#calls.size;
  }

  send(call: NodeCall): void {
    const refusal = this.#refusal();
    if (refusal !== undefined)
      return queueMicrotask(() => call.onError(refusal, this.#causeOf(refusal)));
    this.#nextId = (this.#nextId + 1) & 0x3fff_ffff;
    call.id = this.#nextId;
    call.deadline = this.#ticker.deadline(this.#options.headersMs + this.#options.idleMs);
    this.#calls.set(call.id, call);
    if (this.#state === "open") this.#socket?.send(call.text());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ticker[Symbol.dispose]();
    this.#reconnect?.[Symbol.dispose]();
    const socket = this.#socket;
    this.#lose(failures.closing);
    await socket?.close();
  }

  #refusal(): Failure | undefined {
    if (this.#closed) return failures.closing;
    if (this.#state === "waiting") return failures.refused;
    const unsent = this.#socket?.unsentBytes ?? 0;
    return this.#calls.size >= maxCalls || unsent > maxUnsentBytes ? failures.saturated : undefined;
  }

  #connect(): void {
    const { url, answerBytes, connectMs } = this.#options;
    const socket = new NodeSocket({
      url,
      clock: this.#clock,
      connectMs,
      messageBytes: answerBytes,
      // `splitResponse` checks the same bytes.
      skipUTF8Validation: true,
      onOpen: () => this.#opened(socket),
      onMessage: (bytes) => this.#message(socket, bytes),
      onLost: (kind, code) => {
        if (this.#socket === socket) this.#errno = code;
        this.#dropped(socket, failures[kind]);
      },
    });
    this.#state = "connecting";
    this.#socket = socket;
  }

  #opened(socket: NodeSocket): void {
    if (this.#socket !== socket) return;
    this.#state = "open";
    this.#errno = undefined;
    for (const call of this.#calls.values()) socket.send(call.text());
  }

  #message(socket: NodeSocket, bytes: Buffer): void {
    if (this.#socket !== socket) return;
    const answer = splitResponse(bytes);
    if (answer === undefined) {
      // Notifications are ignored. After any other message, nothing on this connection can be trusted.
      if (!isNotification(bytes)) this.#dropped(socket, failures.garbage);
      return;
    }
    this.#failedConnections = 0;
    const call = this.#calls.get(answer.id);
    if (call === undefined) return;
    this.#calls.delete(answer.id);
    call.onAnswer(answer.kind, bytes, answer.start, answer.end);
  }

  /** Reconnects at once if this connection had given an answer, else after a delay. */
  #dropped(socket: NodeSocket, failure: Failure): void {
    if (this.#socket !== socket) return;
    const connected = this.#state === "open";
    const delayMs =
      this.#failedConnections === 0 && connected ? 0 : backoffMs(this.#failedConnections);
    this.#failedConnections++;
    this.#lose(connected || failure !== failures.closed ? failure : failures.refused);
    if (this.#closed) return;
    if (delayMs === 0) return this.#connect();
    this.#reconnect = this.#clock.after(delayMs, () => this.#connect());
  }

  #lose(failure: Failure): void {
    this.#state = "waiting";
    void this.#socket?.close();
    this.#socket = undefined;
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    for (const call of calls) call.onError(failure, this.#causeOf(failure));
  }

  #sweep(): void {
    const { now } = this.#ticker;
    for (const [id, call] of this.#calls) {
      if (call.deadline > now) return;
      this.#calls.delete(id);
      call.onError(failures.answerTimeout, this.#causeOf(failures.answerTimeout));
    }
  }

  #causeOf({ kind }: Failure): UpstreamFailure {
    const { connectMs, headersMs, idleMs } = this.#options;
    const isLost = kind === "refused" || kind === "closed";
    const limits: Partial<Record<Failure["kind"], number>> = {
      connectTimeout: connectMs,
      answerTimeout: headersMs + idleMs,
    };
    const errno = isLost ? this.#errno : undefined;
    return { kind, errno, timeoutMs: limits[kind] };
  }
}

/** Returns an exponential delay, half of it random, so that many gateways do not reconnect at the same moment. */
function backoffMs(attempt: number): number {
  const max = Math.min(maxReconnectMs, reconnectMs * 2 ** Math.min(attempt, 16));
  return max / 2 + (Math.random() * max) / 2;
}

function isNotification(bytes: Buffer): boolean {
  const end = skipValue(bytes, skipSpace(bytes, 0, bytes.length), bytes.length, 0, "trusted");
  return (
    end >= 0 && skipSpace(bytes, end, bytes.length) === bytes.length && bytes.includes('"method"')
  );
}
