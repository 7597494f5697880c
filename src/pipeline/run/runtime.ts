/**
 * The objects that an exchange gets from the rest of the core: its request, and the objects that all exchanges share.
 * `X` is the exchange itself (`LiveExchange`), because this file must not import the file that uses it.
 */
import type {
  AcceptOptions,
  Awaitable,
  Clock,
  Connection,
  Log,
  Outcome,
  Reply,
  Sink,
} from "../../plugin.ts";
import type { HeldBytes } from "../../memory/held-bytes.ts";
import type { ExchangeObserver } from "../observe/record.ts";
import type { ClientResponse } from "../../message/client-response.ts";
import type { AddressResolver, RequestBody, RoutedRequest } from "../../message/request-head.ts";

export interface Arrival<X> extends RoutedRequest {
  /** The message from which the body is read, or the whole body if it came with the head. */
  readonly body: RequestBody | Buffer;
  readonly res: ClientResponse;
  /** True if the client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
  /** Value of `Allow` if the path exists and the method does not. */
  readonly allow: string | undefined;
  /** Present if the client asks for a WebSocket, on a route that has one. */
  readonly upgrade?: Upgrade<X> | undefined;
}

export interface Upgrade<X> {
  accept(x: X, options: AcceptOptions): Promise<Connection>;
}

/**
 * A surface wanted to accept an upgrade that has failed. It is not a bug of the surface, so the core does not log it.
 */
export class UpgradeFailed extends Error {
  /** The core's answer to the client; undefined if the client has left. */
  readonly reply: Reply | undefined;

  constructor(reply: Reply | undefined) {
    super("the upgrade cannot be accepted");
    this.reply = reply;
  }
}

export interface Runtime<X> extends AddressResolver {
  readonly clock: Clock;
  readonly log: Log;
  readonly runner: Runner<X>;
  readonly held: HeldBytes;
  readonly bodyWatch: BodyWatch<X>;
  readonly readerWatch: ReaderWatch<X>;
  /** Limits how long an exchange waits for its surface after the response is over. */
  readonly surfaceWatch: ExchangeWatch<X>;
  readonly observers: Iterable<ExchangeObserver>;
  /** Maximum time, in milliseconds, for which a client may take nothing of an answer that waits for it. */
  readonly stallMs: number;
}

export interface Runner<X> {
  openSink(x: X, status: number, headers: readonly string[]): Promise<Sink>;
  admitMessage(x: X): Awaitable<Reply | undefined>;
  failCallback(x: X, error: unknown): void;
  settle(x: X, outcome: Outcome): void;
}

/** A set of exchanges that wait for something, with a time limit. */
export interface ExchangeWatch<X> {
  add(x: X): void;
  remove(x: X): void;
}

export interface BodyWatch<X> {
  /** Watches a body that is kept. Returns a refusal if its caller already has as many unfinished bodies as allowed. */
  admit(x: X): ArrivingBody | Reply;
  /** Watches a body that is not kept. Only its pace counts. */
  admitStreamed(x: X): ArrivingBody;
}

export interface ReaderWatch<X> {
  /** Counts the unsent bytes of an answer, and cuts its client if it reads too slowly. It may cut it at once. */
  wait(x: X): WaitingAnswer;
}

/** Dispose when the client has taken everything, or nothing more is sent. */
export interface WaitingAnswer extends Disposable {
  /** Counts the unsent bytes again. It may cut the client. */
  update(): void;
}

export interface ArrivingBody {
  readonly isWatched: true;
  /** Counts bytes that are kept. It may end this exchange or another one. */
  received(bytes: number): void;
  /** Ends the watch of a body that is whole and kept. Its bytes stay counted until `close`. */
  arrived(): void;
  /** Sets the number of bytes that are kept, if they are within the bounds. */
  resize(bytes: number): void;
  /** Ends the watch and the count. Does nothing if they have ended. */
  close(): void;
}
