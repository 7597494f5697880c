/**
 * One request and its answer: what plugins see of it (`Exchange`), and the state machine that the core runs. This file
 * does not import the files that run hooks. They are passed in as a `Runner`, so that no file imports in a circle.
 */
import { Readable } from "node:stream";
import type { IncomingMessage } from "node:http";
import type { CallReport } from "../../contract/called.ts";
import type {
  AcceptOptions,
  Clock,
  Connection,
  Exchange,
  Facts,
  LimitReached,
  Log,
  NotedFacts,
  Outcome,
  Reply,
  RequestHead,
  Sink,
  SlotName,
  Slots,
} from "../../plugin.ts";
import { runGuarded } from "../../guard.ts";
import type { CompiledRoute, PlacedStep } from "../load/compile.ts";
import { coreDepth, ExchangeRecord, type ExchangeObserver } from "../observe/record.ts";
import { asksForTrace } from "../observe/trace-header.ts";
import type { ClientResponse, ResponseOwner } from "./client-response.ts";
import { earlyHints } from "./early-hints.ts";
import { guardListeners } from "./guard-listeners.ts";
import { readJson, type Json } from "./json-body.ts";
import { LiveRequestHead, type Addresses, type RoutedRequest } from "./request-head.ts";

/** A request that has a route. */
export interface Arrival extends RoutedRequest {
  /** The message from which the body is read, or the whole body if it came with the head. */
  readonly body: IncomingMessage | Buffer;
  readonly res: ClientResponse;
  /** True if the client waits for `100 Continue` before it sends its body. */
  readonly expectsContinue: boolean;
  /** Value of `Allow` if the path exists and the method does not. */
  readonly allow: string | undefined;
  /** Present if the client asks for a WebSocket, on a route that has one. */
  readonly upgrade?: Upgrade | undefined;
}

/** A WebSocket that a client asks for (src/http/websocket.ts). */
export interface Upgrade {
  accept(x: LiveExchange, options: AcceptOptions): Promise<Connection>;
}

/** Objects that all exchanges of a gateway share. */
export interface Runtime extends Addresses {
  readonly clock: Clock;
  readonly log: Log;
  readonly runner: Runner;
  /** Limits request bodies while they arrive. */
  readonly bodyWatch: BodyWatch;
  /** Limits how long an exchange waits for its surface after the response is over. */
  readonly surfaceWatch: ExchangeWatch;
  /** Called for each exchange that has ended. */
  readonly observers: Iterable<ExchangeObserver>;
  /** Maximum time, in milliseconds, for which a client may take nothing of an answer that waits for it. */
  readonly stallMs: number;
}

/** The parts of the pipeline that an exchange calls (src/pipeline/run/run.ts). */
export interface Runner {
  /** Opens the streamed answer of a surface. */
  openSink(x: LiveExchange, status: number, headers: readonly string[]): Promise<Sink>;
  /** Answers an exchange whose plugin threw in a callback. */
  failCallback(x: LiveExchange, error: unknown): void;
  /** Runs the `settled` hooks and notifies the observers. */
  settle(x: LiveExchange, outcome: Outcome): void;
}

/** A set of exchanges that wait for something, with a time limit. */
export interface ExchangeWatch {
  add(x: LiveExchange): void;
  remove(x: LiveExchange): void;
}

/** Watches the bodies that are arriving (src/http/body-watch.ts). */
export interface BodyWatch {
  /** Watches a body that is kept. Returns a refusal if its caller already has as many unfinished bodies as allowed. */
  admit(x: LiveExchange): ArrivingBody | Reply;
  /** Watches a body that is not kept. Only its pace counts. */
  admitStreamed(x: LiveExchange): ArrivingBody;
}

/** A body that is watched while it arrives. */
export interface ArrivingBody {
  readonly isWatched: true;
  /** Counts bytes that are kept. It may end this exchange or another one. */
  received(bytes: number): void;
  /** Ends the watch. Does nothing if it has ended. */
  close(): void;
}

/**
 * The states of an exchange. Every state can also become `ended`.
 *
 * | state | meaning | next |
 * |---|---|---|
 * | `steps` | the request runs down the list of steps | `surface`, `reply` |
 * | `surface` | the surface prepares its answer | `reply`, `stream` |
 * | `reply` | a reply of known size runs up the list and is sent | `reply` (a hook has replaced it) |
 * | `stream` | the surface streams its answer or uses a WebSocket | `surface` (its head could not be sent) |
 * | `ended` | nothing more is sent, but the surface has not returned | `settled` |
 * | `settled` | the `settled` hooks have run | |
 */
type State = "steps" | "surface" | "reply" | "stream" | "ended" | "settled";

/** The outcome of an answer that reports itself that it is incomplete. */
export type FailedOutcome = "upstreamFailed" | "timedOut";

/** The members of `Exchange` are documented there. All other members belong to the core, and no plugin sees them. */
export class LiveExchange implements Exchange, ResponseOwner {
  readonly request: RequestHead;
  readonly arrivedMonotonic: number;
  body: Buffer | undefined = undefined;
  onAbort: Exchange["onAbort"] = undefined;

  readonly arrival: Arrival;
  readonly compiled: CompiledRoute;
  readonly runtime: Runtime;
  readonly record: ExchangeRecord;
  /** True if the client asks for an explanation in the response. */
  readonly wantsTrace: boolean;
  /** The step whose hook runs, or returned a reply. Undefined outside of hooks, for example in the surface. */
  at: PlacedStep | undefined = undefined;
  /** Index of the first `responseEnd` hook that has not run. */
  nextResponseEnd = 0;
  /** The body while it arrives. */
  arrivingBody: ArrivingBody | undefined = undefined;

  readonly #slots: Partial<Slots> = {};
  /** The data of steps, by depth. Undefined if no step has any. */
  #states: unknown[] | undefined = undefined;
  readonly #onSettled: (x: LiveExchange) => void;
  #state: State = "steps";
  /** True while the surface runs. `settled` waits for it, also after the client has left. */
  #isSurfaceRunning = false;
  /** How the answer itself reports that it ends. */
  #answerOutcome: FailedOutcome | undefined = undefined;
  /** True if the gateway has cut the connection, so that its end does not mean that the client has left. */
  #isCut = false;
  #hasFailed = false;
  #connection: { terminate(): void } | undefined = undefined;
  #hasSentContinue = false;
  #isReaderWatched = false;
  #isAborted = false;
  #abort: AbortController | undefined = undefined;
  #json: Json | undefined = undefined;
  /** The body whose JSON is known to be within the bounds. */
  #bounded: Buffer | undefined = undefined;

  constructor(
    arrival: Arrival,
    compiled: CompiledRoute,
    runtime: Runtime,
    onSettled: (x: LiveExchange) => void,
  ) {
    const { clock } = runtime;
    this.arrival = arrival;
    this.compiled = compiled;
    this.runtime = runtime;
    this.request = new LiveRequestHead(arrival, runtime);
    this.arrivedMonotonic = clock.monotonic();
    this.#onSettled = onSettled;
    this.wantsTrace = asksForTrace(arrival.req.headers);
    const times = compiled.stepStats.begin(this.arrivedMonotonic, this.wantsTrace);
    this.record = new ExchangeRecord(clock.now(), this.request.method, compiled.shape, times);
  }

  get route(): Exchange["route"] {
    return this.compiled.route;
  }

  get arrivedAt(): number {
    return this.record.arrivedAt;
  }

  get sent(): Exchange["sent"] {
    return this.record;
  }

  get clientLeft(): boolean {
    return this.record.outcome === "clientLeft";
  }

  get facts(): Readonly<NotedFacts> {
    return this.record.facts;
  }

  note<F extends keyof Facts>(name: F, value: Facts[F] | undefined): void {
    this.record.facts[name] = value;
  }

  get<S extends SlotName>(slot: S): Slots[S] {
    const value = this.#slots[slot];
    // The loader has proved that a provider runs earlier, so this is a plugin that does not keep its manifest.
    if (value === undefined) throw new Error(`slot "${slot}" was read before it was set`);
    return value;
  }

  peek<S extends SlotName>(slot: S): Slots[S] | undefined {
    return this.#slots[slot];
  }

  set<S extends SlotName>(slot: S, value: Slots[S]): void {
    if (this.#slots[slot] !== undefined) throw new Error(`slot "${slot}" was set twice`);
    this.#slots[slot] = value;
  }

  /** Returns the data of a step that has `createState`. */
  stateOf({ depth, hooks }: PlacedStep): unknown {
    this.#states ??= [];
    return (this.#states[depth] ??= hooks.createState?.(this));
  }

  replaceBody(body: Buffer): void {
    this.body = body;
    this.#json = undefined;
  }

  dropBody(): void {
    this.body = undefined;
    this.#bounded = undefined;
    this.#json = undefined;
  }

  /** Sets the body that was read. `isBounded`: its JSON is known to be within the bounds. */
  setBody(body: Buffer, isBounded: boolean): void {
    this.body = body;
    if (isBounded) this.#bounded = body;
  }

  json(): Json {
    this.#json ??= readJson(this.body, this.body === this.#bounded);
    return this.#json;
  }

  bodyStream(): Readable {
    const { body } = this.arrival;
    if (Buffer.isBuffer(body)) return Readable.from([body], { objectMode: false });
    this.sendContinue();
    const arriving = this.runtime.bodyWatch.admitStreamed(this);
    this.arrivingBody = arriving;
    body.once("close", () => arriving.close());
    return body;
  }

  /** Sends `100 Continue`, once, if the client waits for it. */
  sendContinue(): void {
    const { res } = this.arrival;
    if (this.awaitsContinue && !res.headersSent) {
      this.#hasSentContinue = true;
      res.writeContinue();
    }
  }

  /** True if the client has not sent its body because it still waits for `100 Continue`. */
  get awaitsContinue(): boolean {
    return this.arrival.expectsContinue && !this.#hasSentContinue;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#isAborted) this.#abort.abort();
      guardListeners(this.#abort.signal, (listener) => this.runCallback(listener));
    }
    return this.#abort.signal;
  }

  limitReached(reached: LimitReached): void {
    this.record.reached = reached;
  }

  called(report: CallReport): void {
    this.compiled.stats.called(report);
    this.record.addCall(report);
  }

  get calls(): Exchange["calls"] {
    return this.record.calls;
  }

  informational(status: number, headers: readonly string[]): void {
    const { res } = this.arrival;
    if (status !== 103 || res.headersSent || this.hasEnded) return;
    const hints = earlyHints(headers);
    if (hints === undefined) return;
    try {
      res.writeEarlyHints(hints);
    } catch {
      // Node accepts fewer forms of Link than RFC 8288. A hint is optional, so the answer is sent without it.
    }
  }

  stream(status: number, headers: readonly string[]): Promise<Sink> {
    this.#beginStream("the response is already being sent");
    return this.runtime.runner.openSink(this, status, headers);
  }

  accept(options: AcceptOptions): Promise<Connection> {
    const { upgrade } = this.arrival;
    if (upgrade === undefined) throw new Error("there is no WebSocket upgrade to accept");
    this.#beginStream("the WebSocket upgrade is already answered");
    return upgrade.accept(this, options);
  }

  /** A surface may stream after its client has left. Then nothing is sent. */
  #beginStream(problem: string): void {
    if (this.#state === "surface") this.#state = "stream";
    else if (!this.hasEnded) throw new Error(problem);
  }

  // The state machine.

  enterSurface(): void {
    this.#state = "surface";
    this.#isSurfaceRunning = true;
    this.record.isSurfaceEntered = true;
  }

  /** The surface has returned, or the core does not wait for it any longer. */
  surfaceReturned(): void {
    if (!this.#isSurfaceRunning) return;
    this.#isSurfaceRunning = false;
    if (this.#state !== "ended") return;
    this.runtime.surfaceWatch.remove(this);
    this.#settle();
  }

  /** The head of a streamed answer could not be sent, so the exchange can still be answered with a reply. */
  streamFailed(): void {
    if (this.#state === "stream") this.#state = "surface";
  }

  /** `outcome`: set if the reply reports itself that the answer is incomplete. */
  beginReply(outcome: FailedOutcome | undefined): void {
    this.#state = "reply";
    this.answerEnds(outcome);
  }

  /** A step, or the core if `step` is undefined, answers instead of the surface. */
  repliedBy(step: PlacedStep | undefined): void {
    if (step !== undefined) this.record.repliedDepth = step.depth;
    else this.record.repliedDepth ??= coreDepth;
  }

  /** Marks the exchange as failed. Returns false if it already was. */
  firstFailure(): boolean {
    if (this.#hasFailed) return false;
    this.#hasFailed = true;
    return true;
  }

  /** Sets the outcome that the answer reports about itself. Undefined leaves it as it is. */
  answerEnds(outcome: FailedOutcome | undefined): void {
    this.#answerOutcome = outcome ?? this.#answerOutcome;
  }

  get answerOutcome(): FailedOutcome | undefined {
    return this.#answerOutcome;
  }

  get isStreaming(): boolean {
    return this.#state === "stream";
  }

  /** True while no reply and no stream has begun. */
  get isUnanswered(): boolean {
    return this.#state === "steps" || this.#state === "surface";
  }

  /** True after nothing more can be sent. */
  get hasEnded(): boolean {
    return this.#state === "ended" || this.#state === "settled";
  }

  get hasSettled(): boolean {
    return this.#state === "settled";
  }

  /** Cuts the connection, because an answer that cannot be completed must not look complete. */
  cutOff(outcome: FailedOutcome): void {
    if (this.hasEnded) return;
    this.#answerOutcome = outcome;
    this.#isCut = true;
    this.arrival.res.destroy();
    this.#connection?.terminate();
  }

  /** Ties a WebSocket to the exchange: `cutOff` terminates it. */
  attach(connection: { terminate(): void }): void {
    this.#connection = connection;
  }

  onClose(isComplete: boolean): void {
    const outcome = isComplete || this.#isCut ? this.#answerOutcome : "clientLeft";
    if (!isComplete) this.#isAborted = true;
    this.end(outcome ?? (this.record.repliedDepth === undefined ? "complete" : "replied"));
  }

  onStall(): void {
    this.cutOff("timedOut");
  }

  /** Ends the exchange, once. The `settled` hooks run when the surface has returned, too. */
  end(outcome: Outcome): void {
    if (this.hasEnded) return;
    this.#state = "ended";
    this.record.outcome = outcome;
    this.arrivingBody?.close();
    if (this.#isAborted) this.#notifyAbort();
    if (this.#isSurfaceRunning) this.runtime.surfaceWatch.add(this);
    else this.#settle();
  }

  #settle(): void {
    if (this.hasSettled) return;
    this.#state = "settled";
    try {
      this.runtime.runner.settle(this, this.record.outcome ?? "complete");
    } finally {
      this.#onSettled(this);
    }
  }

  /** Notifies the surface, if it used `signal` or `onAbort`, that the client has left or the exchange was cut. */
  #notifyAbort(): void {
    const { onAbort } = this;
    if (onAbort !== undefined) this.runCallback(() => onAbort.aborted());
    this.#abort?.abort();
  }

  // Time limits and callbacks.

  /** Cuts a client that takes nothing for `stallMs`, because others need its connection and memory. */
  watchReader(): void {
    const { res } = this.arrival;
    if (this.#isReaderWatched || res.writableFinished) return;
    this.#isReaderWatched = true;
    res.watch(this.runtime.stallMs);
  }

  /** Ends the watch, because the client has room again and the next chunk is due from the upstream. */
  unwatchReader(): void {
    if (!this.#isReaderWatched) return;
    this.#isReaderWatched = false;
    this.arrival.res.watch(0);
  }

  /**
   * Calls a function that a plugin has left for an event, such as a message, room to write or an abort. Nothing above
   * it on the stack could handle an exception, so an exception (or a rejection) fails only this exchange. Use it for
   * every call of plugin code from a socket, a timer or a signal.
   */
  runCallback<A extends readonly unknown[]>(
    callback: ((...args: A) => unknown) | undefined,
    ...args: A
  ): void {
    if (callback === undefined) return;
    runGuarded(callback, (error) => this.#callbackFailed(error), ...args);
  }

  #callbackFailed(error: unknown): void {
    this.runtime.runner.failCallback(this, error);
  }
}
