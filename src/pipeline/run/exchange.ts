/** One request and its answer, as plugins see it (`Exchange`) and as the core drives it. */
import { isUtf8 } from "node:buffer";
import { Readable } from "node:stream";
import type {
  AcceptOptions,
  Clock,
  Connection,
  Exchange,
  LimitReached,
  Log,
  Reply,
  RequestHead,
  Sink,
  SlotName,
  Slots,
} from "../../plugin.ts";
import { jsonBytesExcess, jsonExcess, type JsonExcess } from "../../json-bounds.ts";
import { parseBoundedJson } from "../../parse-json.ts";
import type { CallReport } from "../../called.ts";
import type { Linked } from "../../http/linked-list.ts";
import type { Activity } from "../observe/activity.ts";
import { runCallback } from "./answer.ts";
import { LiveRequestHead, type Addresses, type Arrival } from "./arrival.ts";
import type { CompiledRoute, PlacedStep } from "../load/compile.ts";
import { CallRecord } from "./call-record.ts";
import { earlyHints } from "./early-hints.ts";
import { guardListeners } from "./guard-listeners.ts";
import type { Stories } from "../observe/stories.ts";
import { asksForTrace } from "../observe/trace-header.ts";

/** What all exchanges of a gateway share. */
export interface Runtime extends Addresses {
  readonly clock: Clock;
  readonly log: Log;
  /** Opens the streamed answer of an exchange (src/pipeline/run/sink.ts). */
  openSink(x: LiveExchange, status: number, headers: readonly string[]): Promise<Sink>;
  /** Cuts uploads that pause for too long while their body is read. */
  readonly bodyWatch: BodyWatch;
  /** Settles exchanges whose response is over and whose surface does not return. */
  readonly surfaceWatch: ExchangeWatch;
  /** Told every exchange that has ended. */
  readonly activity?: Activity | undefined;
  /** Whom `sluice explain` asks. */
  readonly stories?: Stories | undefined;
  /** How long a client may take nothing of an answer that waits for it. */
  readonly stallMs: number;
}

/** A list of exchanges that wait for something, with a limit. */
export interface ExchangeWatch {
  add(x: LiveExchange): void;
  remove(x: LiveExchange): void;
}

/** The bodies that are arriving (src/http/body-watch.ts). */
export interface BodyWatch {
  /** Returns a refusal if the caller already has as many unfinished bodies as it may have; else watches this one. */
  admit(x: LiveExchange): Reply | undefined;
  /** Watches a body that is not kept: only its pace counts. */
  addStreamed(x: LiveExchange): void;
  /** Counts bytes that are kept. It may end this exchange or another one. */
  received(x: LiveExchange, bytes: number): void;
  /** Does nothing for an exchange that is not watched. */
  remove(x: LiveExchange): void;
}

/** What the unfinished bodies of one caller hold together. */
export interface BodyCaller {
  readonly id: string;
  bodies: number;
  bytes: number;
}

type Json = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/** What `Exchange` declares is documented there; all else belongs to the core, and no plugin sees it. */
export class LiveExchange implements Exchange, Linked<LiveExchange> {
  readonly request: RequestHead;
  readonly arrivedAt: number;
  readonly arrivedMonotonic: number;
  body: Buffer | undefined = undefined;
  onAbort: Exchange["onAbort"] = undefined;
  clientLeft = false;
  readonly sent: { status: number; bodyBytes: number; code: string | undefined } = {
    status: 0,
    bodyBytes: 0,
    code: undefined,
  };

  readonly runtime: Runtime;
  readonly compiled: CompiledRoute;
  readonly arrival: Arrival;

  // The way down and up. A depth is a step's place in the list, 0 at the top.
  /** How many steps, from the top, have been entered: those take part in the way up. */
  entered = 0;
  /** The step whose hook runs or ran last; undefined in the surface. */
  at: PlacedStep | undefined = undefined;
  /** Depths of steps whose `when` does not hold; undefined on routes without conditions. */
  skipped: ReadonlySet<number> | undefined = undefined;
  /** Depths of steps in shadow mode that would have refused. */
  shadowed: Set<number> | undefined = undefined;
  /** A plugin has thrown: a second throw is answered without hooks. */
  crashed = false;
  /** Of the step that threw: its hooks are passed over on the way up, but for `settled`. */
  brokenDepth: number | undefined = undefined;
  surfaceAsked = false;
  /** The surface may still be at work after the client has left: `settled` waits for it. */
  surfaceBusy = false;

  // The answer and its end.
  repliedByStep = false;
  /** Of the step whose reply is sent; the surface's own is below all of them. */
  repliedDepth = Infinity;
  /** The last limit that left no room. */
  reached: LimitReached | undefined = undefined;
  /** The calls that were reported. */
  calls: CallRecord | undefined = undefined;
  /** `100 Continue` was sent. */
  continued = false;
  /** True once `stream` was called: the answer can no longer be a Reply. */
  streaming = false;
  /** The WebSocket, once it is accepted. */
  connection: { terminate(): void } | undefined = undefined;
  /** Set where the response's end alone does not tell. */
  forcedOutcome: "upstreamFailed" | "timedOut" | undefined = undefined;
  /** The gateway itself cut the connection: its client has not left. */
  cut = false;
  /** The response is over, whole or not. */
  closed = false;
  settledRan = false;

  // Who is watched meanwhile, and what is told of it.
  /** Whether a slow reader is on the clock. */
  readerWatched = false;
  /** What the connection had received when the body watch last looked, bytes, and when that last grew, monotonic. */
  bodySeenBytes = 0;
  bodyActiveAt = 0;
  /** What the connection had received when the body last proved to be fast enough, bytes, and when, monotonic. */
  bodyPaceBytes = 0;
  bodyPaceAt = 0;
  /** Bytes of the unfinished body that are kept, and the caller whom they count for. */
  bodyHeldBytes = 0;
  bodyCaller: BodyCaller | undefined = undefined;
  /** Neighbours on the body watch's list. */
  before: LiveExchange | undefined = undefined;
  behind: LiveExchange | undefined = undefined;
  /** Its client wants the story of it in the answer. */
  readonly wantsTrace: boolean;
  /** Milliseconds spent at each depth; undefined: this exchange is not timed. */
  readonly times: Float64Array | undefined;

  readonly #slots: Partial<Slots> = {};
  readonly #onSettled: (x: LiveExchange) => void;
  #json: Json | undefined;
  /** The body in which `exceeds` has found nothing. */
  #bounded: Buffer | undefined;
  #abort: AbortController | undefined;
  #aborted = false;

  constructor(
    arrival: Arrival,
    compiled: CompiledRoute,
    runtime: Runtime,
    onSettled: (x: LiveExchange) => void,
  ) {
    this.arrival = arrival;
    this.compiled = compiled;
    this.runtime = runtime;
    this.request = new LiveRequestHead(arrival, runtime);
    this.arrivedAt = runtime.clock.now();
    this.arrivedMonotonic = runtime.clock.monotonic();
    this.#onSettled = onSettled;
    this.wantsTrace = asksForTrace(arrival.req.headers);
    this.times = compiled.stepStats.begin(this.arrivedMonotonic, this.wantsTrace);
  }

  get route(): Exchange["route"] {
    return this.compiled.route;
  }

  get<S extends SlotName>(slot: S): Slots[S] {
    const value = this.#slots[slot];
    // The loader proved that a provider runs earlier: reaching this is a plugin that did not keep its manifest.
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

  replaceBody(body: Buffer): void {
    this.body = body;
    this.#json = undefined;
  }

  dropBody(): void {
    this.body = undefined;
    this.#bounded = undefined;
    this.#json = undefined;
  }

  /** Checks the bounds of a body that is JSON. Returns the one that it exceeds. */
  exceeds(body: Buffer): JsonExcess | undefined {
    const excess = jsonBytesExcess(body);
    if (excess === undefined) this.#bounded = body;
    return excess;
  }

  json(): Json {
    this.#json ??= readJson(this.body, this.body === this.#bounded);
    return this.#json;
  }

  bodyStream(): Readable {
    const { body } = this.arrival;
    if (Buffer.isBuffer(body)) return Readable.from([body], { objectMode: false });
    this.sendContinue();
    this.runtime.bodyWatch.addStreamed(this);
    body.once("close", () => this.runtime.bodyWatch.remove(this));
    return body;
  }

  /** Tells a client that waits for it to send its body. Once. */
  sendContinue(): void {
    const { res, expectsContinue } = this.arrival;
    if (expectsContinue && !this.continued && !res.headersSent) {
      this.continued = true;
      res.writeContinue();
    }
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#aborted) this.#abort.abort();
      guardListeners(this.#abort.signal, (listener) => runCallback(this, listener));
    }
    return this.#abort.signal;
  }

  /** Ends the connection at once: an answer that cannot be completed must not look whole. */
  cutOff(outcome: "upstreamFailed" | "timedOut"): void {
    if (this.closed) return;
    this.forcedOutcome = outcome;
    this.cut = true;
    this.arrival.res.destroy();
    this.connection?.terminate();
  }

  /** Reports to those who asked for `signal` or set `onAbort` that the client has left or the exchange was cut. */
  abort(): void {
    this.#aborted = true;
    const { onAbort } = this;
    if (onAbort !== undefined) runCallback(this, () => onAbort.aborted());
    this.#abort?.abort();
  }

  accept(options: AcceptOptions): Promise<Connection> {
    const { upgrade } = this.arrival;
    if (upgrade === undefined || this.streaming)
      throw new Error("there is no WebSocket upgrade to accept");
    this.streaming = true;
    return upgrade.accept(this, options);
  }

  stream(status: number, headers: readonly string[]): Promise<Sink> {
    if (this.streaming) throw new Error("the response is already being streamed");
    this.streaming = true;
    return this.runtime.openSink(this, status, headers);
  }

  limitReached(reached: LimitReached): void {
    this.reached = reached;
  }

  called(report: CallReport): void {
    this.compiled.stats.called(report);
    this.calls ??= new CallRecord();
    this.calls.add(report);
  }

  informational(status: number, headers: readonly string[]): void {
    const { res } = this.arrival;
    if (status !== 103 || res.headersSent || this.closed) return;
    const hints = earlyHints(headers);
    if (hints === undefined) return;
    try {
      res.writeEarlyHints(hints);
    } catch {
      // Node takes fewer forms of Link than RFC 8288 has. A hint is only a hint: the answer comes without it.
    }
  }

  /** A client that stops reading for `stallMs` is cut: what it holds (a connection, memory) is needed by others. */
  watchReader(): void {
    const { res } = this.arrival;
    if (this.readerWatched || res.writableFinished) return;
    this.readerWatched = true;
    res.watch(this.runtime.stallMs);
  }

  /** The client has room again: what comes next is the upstream's to be waited for. */
  unwatchReader(): void {
    if (!this.readerWatched) return;
    this.readerWatched = false;
    this.arrival.res.watch(0);
  }

  /** Whether the hooks of the step at this depth are passed over: by its condition, or because it has thrown. */
  skips(depth: number): boolean {
    return depth === this.brokenDepth || this.conditionSkips(depth);
  }

  conditionSkips(depth: number): boolean {
    return this.skipped !== undefined && this.skipped.has(depth);
  }

  /** Tells the owner (the generation, the drain) that nothing of this exchange runs any more. */
  finished(): void {
    this.#onSettled(this);
  }
}

/** `isBounded`: `jsonExcess` has found nothing in the body. */
function readJson(body: Buffer | undefined, isBounded: boolean): Json {
  // Reading what is no UTF-8 would put other characters in its place, and nobody would know.
  if (body === undefined || !isUtf8(body)) return { ok: false };
  try {
    const text = body.toString("utf8");
    if (!isBounded && jsonExcess(text) !== undefined) return { ok: false };
    return { ok: true, value: parseBoundedJson(text) };
  } catch {
    return { ok: false };
  }
}
