/**
 * One connection to a node carries all calls. It is opened again whenever it is lost.
 *
 * An answer arrives as a whole, so a call has `headersMs + idleMs` in total. A message larger than `answerBytes` cannot
 * be matched to its call, so it ends the connection.
 */
import { startTicker, type Ticker } from "sluice-gateway/internal/http";
import type { Clock, UpstreamFailure } from "sluice-gateway/plugin";
import { failures, type Failure, type NodeCall, type NodeClient } from "./node-call.ts";
import type { ClientOptions } from "./http-client.ts";
import { isJson, NodeConnection } from "./node-connection.ts";

/** A node processes the calls of one connection concurrently. */
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
  #state: State = "waiting";
  #closed = false;
  #connection: NodeConnection | undefined;
  #failedConnections = 0;
  #reconnect: Disposable | undefined;
  #errno: string | undefined;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#ticker = startTicker(options.clock, [options.headersMs], () => this.#sweep());
    this.#connect();
  }

  get inFlight(): number {
    return this.#connection?.calls.size ?? 0;
  }

  send(call: NodeCall): void {
    const refusal = this.#refusal();
    if (refusal !== undefined)
      return queueMicrotask(() => call.onError(refusal, this.#causeOf(refusal)));
    call.deadline = this.#ticker.deadline(this.#options.headersMs + this.#options.idleMs);
    this.#connection?.send(call);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#ticker[Symbol.dispose]();
    this.#reconnect?.[Symbol.dispose]();
    await this.#lose(failures.closing);
  }

  #refusal(): Failure | undefined {
    if (this.#closed) return failures.closing;
    if (this.#state === "waiting") return failures.refused;
    const unsent = this.#connection?.unsentBytes ?? 0;
    return this.inFlight >= maxCalls || unsent > maxUnsentBytes ? failures.saturated : undefined;
  }

  #connect(): void {
    const { url, answerBytes, connectMs } = this.#options;
    this.#state = "connecting";
    this.#connection = new NodeConnection({
      url,
      clock: this.#clock,
      connectMs,
      messageBytes: answerBytes,
      isStrict: false,
      onOpen: () => {
        this.#state = "open";
        this.#errno = undefined;
      },
      // Notifications are ignored. After any other message, nothing on this connection can be trusted.
      onOther: (bytes) => {
        if (!isJson(bytes, "trusted") || !bytes.includes('"method"')) this.#drop(failures.garbage);
      },
      onLost: (kind, code) => {
        this.#errno = code;
        this.#drop(failures[kind]);
      },
    });
  }

  /** Reconnects at once if this connection had given an answer, else after a delay. */
  #drop(failure: Failure): void {
    if (this.#connection?.hasAnswered === true) this.#failedConnections = 0;
    const connected = this.#state === "open";
    const delayMs =
      this.#failedConnections === 0 && connected ? 0 : backoffMs(this.#failedConnections);
    this.#failedConnections++;
    void this.#lose(connected || failure !== failures.closed ? failure : failures.refused);
    if (this.#closed) return;
    if (delayMs === 0) return this.#connect();
    this.#reconnect = this.#clock.after(delayMs, () => this.#connect());
  }

  #lose(failure: Failure): Promise<void> | undefined {
    const connection = this.#connection;
    this.#state = "waiting";
    this.#connection = undefined;
    return connection?.close(failure, this.#causeOf(failure));
  }

  #sweep(): void {
    const { now } = this.#ticker;
    // All calls have the same time limit, so the oldest expires first.
    for (const [id, call] of this.#connection?.calls ?? []) {
      if (call.deadline > now) return;
      this.#connection?.calls.delete(id);
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
