import { isUtf8 } from "node:buffer";
import { Readable } from "node:stream";
import type {
  AcceptOptions,
  Awaitable,
  Connection,
  Exchange,
  Facts,
  LimitReached,
  NotedFacts,
  Outcome,
  Reply,
  RequestHead,
  Sink,
  SlotName,
  Slots,
} from "../../plugin.ts";
import type { CallReport } from "../../contract/called.ts";
import { addressKey } from "../../base/address.ts";
import { runGuarded } from "../../base/guard.ts";
import { jsonExcess } from "../../base/json-bounds.ts";
import { parseBoundedJson } from "../../base/parse-json.ts";
import { noFields, withUpstreamField } from "../../message/headers.ts";
import { isRequestId } from "../../base/request-id.ts";
import type { CompiledRoute, PlacedStep } from "./compile.ts";
import { coreDepth, ExchangeRecord } from "../observe/record.ts";
import { asksForTrace } from "../observe/trace-header.ts";
import type { ResponseOwner } from "../../message/client-response.ts";
import { guardListeners } from "./guard-listeners.ts";
import { LiveRequestHead } from "../../message/request-head.ts";
import { sendEarlyHints } from "./response-head.ts";
import type { ArrivingBody, Arrival, Runtime, WaitingAnswer } from "./runtime.ts";
import { ExchangeState, type FailedOutcome } from "./states.ts";

type Json = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/** The members of `Exchange` are documented there. All other members belong to the core, and no plugin sees them. */
export class LiveExchange extends ExchangeState implements Exchange, ResponseOwner {
  readonly request: RequestHead;
  readonly arrivedMonotonic: number;
  body: Buffer | undefined = undefined;
  onAbort: Exchange["onAbort"] = undefined;

  upstreamHeaders: readonly string[] = noFields;
  /** Number of bytes of the answer that are not written yet, because the client has not taken earlier ones. */
  unwrittenBytes = 0;

  readonly arrival: Arrival<LiveExchange>;
  readonly compiled: CompiledRoute;
  readonly runtime: Runtime<LiveExchange>;
  readonly record: ExchangeRecord;
  readonly wantsTrace: boolean;
  /**
   * The step whose hook runs, or returned a reply. Undefined outside of hooks, for example in the surface. A plain
   * member, because the hook runner sets it for every hook.
   */
  currentStep: PlacedStep | undefined = undefined;
  /** The data of steps, by depth. Undefined if no step has any. */
  states: unknown[] | undefined = undefined;

  #nextResponseEnd = 0;
  #arrivingBody: ArrivingBody | undefined = undefined;
  readonly #slots: Partial<Slots> = {};
  readonly #onSettled: (x: LiveExchange) => void;
  /** True if the gateway has cut the connection, so that its end does not mean that the client has left. */
  #isCut = false;
  #connection: { terminate(): void } | undefined = undefined;
  #hasSentContinue = false;
  #waitingAnswer: WaitingAnswer | undefined = undefined;
  #isAborted = false;
  #abort: AbortController | undefined = undefined;
  #json: Json | undefined = undefined;
  /** The body whose JSON is known to be within the bounds. */
  #bounded: Buffer | undefined = undefined;

  constructor(
    arrival: Arrival<LiveExchange>,
    compiled: CompiledRoute,
    runtime: Runtime<LiveExchange>,
    onSettled: (x: LiveExchange) => void,
  ) {
    super();
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

  /** The caller that holds the memory of the exchange: the authenticated one, else the address. */
  get callerId(): string {
    return this.facts.caller?.id ?? addressKey(this.request.address);
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
    if (slot === "requestId" && !isRequestId(value)) {
      throw new Error('slot "requestId": expected 1 to 128 visible ASCII characters');
    }
    this.#slots[slot] = value;
  }

  setUpstreamHeader(name: string, value: string): void {
    this.upstreamHeaders = withUpstreamField(this.upstreamHeaders, name, value);
  }

  replaceBody(body: Buffer): void {
    this.body = body;
    this.#json = undefined;
    this.#arrivingBody?.resize(body.length);
  }

  dropBody(): void {
    if (this.body !== undefined) this.releaseBody();
    this.body = undefined;
    this.#bounded = undefined;
    this.#json = undefined;
  }

  setBody(body: Buffer, isBounded: boolean): void {
    this.body = body;
    this.#arrivingBody?.arrived();
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
    this.bodyArrives(arriving);
    body.once("close", () => arriving.close());
    return body;
  }

  bodyArrives(arriving: ArrivingBody): void {
    this.#arrivingBody = arriving;
  }

  bodyReceived(bytes: number): void {
    this.#arrivingBody?.received(bytes);
  }

  releaseBody(): void {
    this.#arrivingBody?.close();
  }

  get nextResponseEnd(): number {
    return this.#nextResponseEnd;
  }

  /** The `responseEnd` hook with this index runs. It never runs again, even if a later one replaces the reply. */
  beginResponseEnd(index: number): void {
    this.#nextResponseEnd = index + 1;
  }

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
      guardListeners(this.#abort.signal, this);
    }
    return this.#abort.signal;
  }

  get aborted(): boolean {
    return this.#isAborted;
  }

  limitReached(reached: LimitReached): void {
    this.record.reached = reached;
  }

  called(report: CallReport): void {
    this.compiled.stats.called(report);
    const { upstreamFailure } = report;
    if (upstreamFailure !== undefined) this.note("upstreamFailure", upstreamFailure);
    this.record.addCall(report);
  }

  get calls(): Exchange["calls"] {
    return this.record.calls;
  }

  informational(status: number, headers: readonly string[]): void {
    const { res } = this.arrival;
    if (status !== 103 || res.headersSent || this.hasEnded) return;
    sendEarlyHints(res, headers);
  }

  admit(): Awaitable<Reply | undefined> {
    return this.runtime.runner.admitMessage(this);
  }

  stream(status: number, headers: readonly string[]): Promise<Sink> {
    this.beginStream("the response is already being sent");
    return this.runtime.runner.openSink(this, status, headers);
  }

  accept(options: AcceptOptions): Promise<Connection> {
    const { upgrade } = this.arrival;
    if (upgrade === undefined) throw new Error("there is no WebSocket upgrade to accept");
    this.beginStream("the WebSocket upgrade is already answered");
    return upgrade.accept(this, options);
  }

  override enterSurface(): void {
    super.enterSurface();
    this.record.isSurfaceEntered = true;
  }

  /** Called when the surface has returned, or when the core no longer waits for it. */
  surfaceReturned(): void {
    if (!this.leaveSurface()) return;
    this.runtime.surfaceWatch.remove(this);
    this.#settle();
  }

  /** Called when a step, or the core if `step` is undefined, answers instead of the surface. */
  repliedBy(step: PlacedStep | undefined): void {
    if (step !== undefined) this.record.repliedDepth = step.depth;
    else this.record.repliedDepth ??= coreDepth;
  }

  /** Cuts the connection, because an answer that cannot be completed must not look complete. */
  cutOff(outcome: FailedOutcome): void {
    if (this.hasEnded) return;
    this.setReportedOutcome(outcome);
    this.#isCut = true;
    this.arrival.res.destroy();
    this.#connection?.terminate();
  }

  /** True if `cutOff` soon releases what the exchange holds: no surface runs, or it stops when it is aborted. */
  get canBeCut(): boolean {
    const stops = this.onAbort !== undefined || this.#abort !== undefined;
    return !this.hasEnded && (stops || !this.isSurfaceRunning);
  }

  attach(connection: { terminate(): void }): void {
    this.#connection = connection;
  }

  onClose(isComplete: boolean): void {
    const outcome = isComplete || this.#isCut ? this.answerOutcome : "clientLeft";
    if (!isComplete) this.#isAborted = true;
    this.end(outcome ?? (this.record.repliedDepth === undefined ? "complete" : "replied"));
  }

  end(outcome: Outcome): void {
    if (!this.markEnded()) return;
    this.record.outcome = outcome;
    // A surface that still runs may use the body.
    if (this.body === undefined) this.releaseBody();
    this.stopReaderWatch();
    if (this.#isAborted) this.#notifyAbort();
    if (this.isSurfaceRunning) this.runtime.surfaceWatch.add(this);
    else this.#settle();
  }

  #settle(): void {
    if (!this.markSettled()) return;
    this.releaseBody();
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

  get unsentBytes(): number {
    return this.unwrittenBytes + this.arrival.res.writableLength;
  }

  /** Number of bytes of the body that the client has taken, apart from the framing of what still waits. */
  get takenBytes(): number {
    return this.record.bodyBytes - this.unsentBytes;
  }

  /** Called when bytes of the answer wait for the client, because a client that does not read must not hold memory. */
  watchReader(): void {
    if (this.hasEnded || this.unsentBytes === 0) return;
    if (this.#waitingAnswer !== undefined) return this.#waitingAnswer.update();
    this.#waitingAnswer = this.runtime.readerWatch.wait(this);
  }

  /** Ends the watch, because the client has room again and the next chunk is due from the upstream. */
  stopReaderWatch(): void {
    this.#waitingAnswer?.[Symbol.dispose]();
    this.#waitingAnswer = undefined;
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

/** `isBounded`: the body is known to be within the bounds of src/base/json-bounds.ts. */
function readJson(body: Buffer | undefined, isBounded: boolean): Json {
  // Decoding bytes that are not UTF-8 would replace characters without anyone noticing.
  if (body === undefined || !isUtf8(body)) return { ok: false };
  try {
    const text = body.toString("utf8");
    if (!isBounded && jsonExcess(text) !== undefined) return { ok: false };
    return { ok: true, value: parseBoundedJson(text) };
  } catch {
    return { ok: false };
  }
}
