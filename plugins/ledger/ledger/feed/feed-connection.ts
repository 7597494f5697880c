/**
 * A WebSocket to one node that carries subscriptions of a pool. The node is hostile input: the size of its messages,
 * their rate and the time for its answers are limited, and anything other than JSON-RPC ends the connection.
 */
import type { Clock } from "sluice-gateway/plugin";
import { memberAt } from "../json-part.ts";
import type { PoolConfig } from "../options.ts";
import { failures, NodeCall } from "../pool/node-call.ts";
import { NodeConnection } from "../pool/node-connection.ts";

/** Maximum number of notifications per second: `baseRate`, and `ratePerSubscription` for each subscription. */
const defaultBaseRate = 100;
const ratePerSubscription = 50;
const maxRequests = 2048;

/** The code of `ws` for a message above `messageBytes`. */
const tooLargeCode = "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";

/** An id of a subscription, as JSON text: a short string without escapes, or a number. */
const idForm = /^(?:"[^"\\]{1,128}"|\d{1,20})$/;

export interface FeedLimits {
  readonly connectMs: number;
  readonly answerMs: number;
  readonly messageBytes: number;
  /** Maximum number of notifications per second in addition to 50 per subscription (default 100). */
  readonly baseRate?: number;
}

const maxMessageBytes = 16 * 1_048_576;

export function feedLimits(upstream: PoolConfig): FeedLimits {
  const { connectMs, headersMs, idleMs, answerBytes } = upstream;
  const messageBytes = Math.min(answerBytes, maxMessageBytes);
  return { connectMs, answerMs: headersMs + idleMs, messageBytes };
}

/** The node's answer as JSON text. Undefined if the connection was lost, or the node did not answer in time. */
export type FeedAnswer = { readonly kind: "result" | "error"; readonly text: string } | undefined;

export type OnFeedAnswer = (answer: FeedAnswer) => void;

class FeedCall extends NodeCall {
  readonly #timeout: Disposable;
  readonly #onEnd: OnFeedAnswer;

  constructor(method: string, params: string, timeout: Disposable, onEnd: OnFeedAnswer) {
    super({ method, params, retry: false, cheap: false });
    this.#timeout = timeout;
    this.#onEnd = onEnd;
  }

  onAnswer(kind: "result" | "error", bytes: Buffer, start: number, end: number): void {
    this.#timeout[Symbol.dispose]();
    this.#onEnd({ kind, text: bytes.toString("utf8", start, end) });
  }

  onError(): void {
    this.#timeout[Symbol.dispose]();
    this.#onEnd(undefined);
  }
}

export class FeedConnection {
  /** Resolves to true when the connection is open, or to false if it is lost before that. */
  readonly opened: Promise<boolean>;
  readonly #resolveOpened: (isOpen: boolean) => void;
  readonly #connection: NodeConnection;
  readonly #clock: Clock;
  readonly #limits: FeedLimits;
  readonly #onLost: (reason: string) => void;
  /** The receivers of notifications, by the node's id of the subscription as JSON text. */
  readonly #receivers = new Map<string, (result: string) => void>();
  #isClosed = false;
  /** True if the connection was lost because of a message above `messageBytes`. */
  isOverLimit = false;
  readonly #rate: EventRate;

  /** `onLost`: called at most once, and not after `close`. */
  constructor(url: URL, clock: Clock, limits: FeedLimits, onLost: (reason: string) => void) {
    this.#clock = clock;
    this.#rate = new EventRate(clock);
    this.#limits = limits;
    this.#onLost = onLost;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.opened = promise;
    this.#resolveOpened = resolve;
    this.#connection = new NodeConnection({
      url,
      clock,
      connectMs: limits.connectMs,
      messageBytes: limits.messageBytes,
      isStrict: true,
      onOpen: () => this.#resolveOpened(true),
      onOther: (bytes) => this.#notification(bytes),
      onLost: (kind, code) => {
        this.isOverLimit = code === tooLargeCode;
        this.#lose(this.isOverLimit ? "message too large" : (code ?? kind));
      },
    });
  }

  get subscriptions(): number {
    return this.#receivers.size;
  }

  /** `params`: JSON text. */
  request(method: string, params: string): Promise<FeedAnswer> {
    return new Promise((resolve) => this.send(method, params, resolve));
  }

  /**
   * Like `request`. If the result is the id of a subscription (JSON text), `open` is called with it, and returns the
   * function that receives the notifications.
   */
  subscribe(
    method: string,
    params: string,
    open: (id: string) => (result: string) => void,
  ): Promise<FeedAnswer> {
    return new Promise((resolve) => {
      this.send(method, params, (answer) => {
        // The first notification can follow the answer immediately, before any promise is resolved.
        if (answer?.kind === "result") {
          if (!idForm.test(answer.text)) {
            this.#lose("not the id of a subscription");
            return resolve(undefined);
          }
          this.#receivers.set(answer.text, open(answer.text));
        }
        resolve(answer);
      });
    });
  }

  unsubscribe(method: string, id: string): void {
    if (this.#receivers.delete(id)) this.send(method, `[${id}]`, () => {});
  }

  /** Discards the notifications of a subscription that has ended at the node. */
  forget(id: string): void {
    this.#receivers.delete(id);
  }

  /** Reads nothing more from the node, except for messages that have already arrived. */
  pause(): void {
    this.#connection.pause();
  }

  resume(): void {
    this.#connection.resume();
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#receivers.clear();
    this.#resolveOpened(false);
    void this.#connection.close(failures.closing);
  }

  /** `onAnswer` is called before any later message of the node is read. */
  send(method: string, params: string, onAnswer: OnFeedAnswer): void {
    const { isOpen, calls } = this.#connection;
    if (!isOpen || calls.size >= maxRequests) return onAnswer(undefined);
    const timeout = this.#clock.after(this.#limits.answerMs, () => this.#lose("answer timeout"));
    this.#connection.send(new FeedCall(method, params, timeout, onAnswer));
  }

  #notification(bytes: Buffer): void {
    const id = memberAt(bytes, ["params", "subscription"]);
    const result = memberAt(bytes, ["params", "result"]);
    if (id === undefined || result === undefined) return this.#lose("not a notification");
    const maxRate =
      (this.#limits.baseRate ?? defaultBaseRate) + ratePerSubscription * this.#receivers.size;
    if (this.#rate.isAbove(maxRate)) return this.#lose("too many notifications");
    this.#receivers.get(id)?.(result);
  }

  /** Closes the connection because of a fault of its node. */
  #lose(reason: string): void {
    if (this.#isClosed) return;
    this.close();
    this.#onLost(reason);
  }
}

export class EventRate {
  readonly #clock: Clock;
  #since = 0;
  #count = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a message. Returns true if there are more than `max` of them in this second. */
  isAbove(max: number): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#since >= 1000) {
      this.#since = now;
      this.#count = 0;
    }
    return ++this.#count > max;
  }
}
