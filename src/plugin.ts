/**
 * The plugin contract: all that a plugin may know about Sluice.
 *
 * A request runs down an ordered list of **steps** to a **surface** that answers it; the answer runs back up the same
 * steps. `pipeline.yaml` is the only place where that order is written. A plugin is a plain object: a manifest first
 * (name, options, the slots it needs and provides), then `start`, which returns its hooks. There is no `next()`, no
 * priority and no base class; only a step that must begin and end with the surface's answer stands around it
 * (`around`). Shipped and third-party plugins use this one file, exported as `sluice-gateway/plugin`.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { Readable } from "node:stream";
import type { CallReport, ReportedCalls } from "./called.ts";
import type { Host } from "./services.ts";
import type { JsonSchema } from "./services/json.ts";
import type { Operation, OperationPlace } from "./operation.ts";
import type { Prompt, ResourceTemplate } from "./prompt.ts";
import type { Resource, Tool } from "./tool.ts";

export type * from "./services.ts";
export type * from "./services/accounts.ts";
export { capabilities } from "./services/accounts.ts";
export type * from "./services/clock.ts";
export type * from "./services/confidential.ts";
export type * from "./services/decoder.ts";
export type * from "./services/evidence.ts";
export type * from "./services/idempotency.ts";
export type * from "./services/json.ts";
export type * from "./services/ledger.ts";
export type * from "./services/log.ts";
export type * from "./services/meter.ts";
export type * from "./services/metrics.ts";
export type * from "./services/networks.ts";
export type * from "./services/routes.ts";
export type * from "./services/store.ts";
export type * from "./services/tickets.ts";
export type * from "./services/trace.ts";
export type * from "./services/upstream.ts";
export type * from "./services/workspaces.ts";
export type * from "./tool.ts";
export type * from "./prompt.ts";
export type * from "./operation.ts";
export type * from "./called.ts";
export { toolFailure, toolReport } from "./tool.ts";
export { addressKey } from "./address.ts";
export { modelJson, modelList, modelListSchema, modelSchema } from "./model-list.ts";
export { parseJson } from "./parse-json.ts";
export { parseTime } from "./rfc3339.ts";
export { violationsSchema } from "./violations.ts";
export { refuse, type GatewayCode } from "./errors.ts";
export { redact } from "./redact.ts";

/**
 * The moments at which a plugin can act, in the order in which an exchange passes them.
 *
 * | phase | runs | may |
 * |---|---|---|
 * | `requestHeaders` | down the list | reply (nothing below runs, no upstream is called) |
 * | `requestBody` | down, with the whole body read once | replace it, reply |
 * | `answer` | the surface | answer; only surfaces have it |
 * | `responseHeaders` | up the list | change status and headers |
 * | `responseChunk` | up, synchronous, chunks are borrowed | replace a chunk |
 * | `responseEnd` | up, before the last byte leaves | wait; refuse while no byte has left |
 * | `settled` | up, exactly once, however the exchange ended | release, charge, log |
 */
export type Phase =
  | "requestHeaders"
  | "requestBody"
  | "answer"
  | "responseHeaders"
  | "responseChunk"
  | "responseEnd"
  | "settled";

/**
 * Values that plugins hand to one another, by name. A plugin adds its slot by declaration merging:
 * `declare module "sluice-gateway/plugin" { interface Slots { tenant: Tenant } }`, and names it in `provides`.
 */
export interface Slots {}
export type SlotName = keyof Slots & string;
/** Slot name to the phase in which it is set (`provides`) or first read (`needs`, `wants`). */
export type SlotPhases = Partial<Record<SlotName, Phase>>;

/**
 * Services by name, for `host.use`. A plugin of kind `service` adds its own type by declaration merging:
 * `declare module "sluice-gateway/plugin" { interface ServiceTypes { "acme-store": AcmeStore } }`.
 */
export interface ServiceTypes {}
export type ServiceName = keyof ServiceTypes & string;

/** How an exchange ended: `replied` is a step's own answer, `complete` the surface's, sent to its last byte. */
export type Outcome = "complete" | "replied" | "clientLeft" | "upstreamFailed" | "timedOut";

/** A limit that leaves no room for a request. */
export interface LimitReached {
  /** What is counted together: `key`, `address`, `24h`, `plan` … */
  readonly scope: string;
  readonly unit: "requests" | "milli-CU";
  readonly used: number;
  readonly limit: number;
  /** When there is room again, milliseconds since 1970; absent: the refusing plugin does not know. */
  readonly clearsAt?: number;
}

/** An answer of known size. Values, never throws, carry expected failures: see `refuse` for those with a code. */
export interface Reply {
  readonly status: number;
  /** Flat name, value, name, value … in the order sent. `Content-Length` is added by the core. */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array;
  /** The `GATEWAY_*` code of a refusal, for logs and metrics. */
  readonly code?: string;
  /** The limit that a refusal is about, for whoever explains the exchange. It is not sent. */
  readonly reached?: LimitReached;
  /** How the exchange ends, where the reply stands in for an upstream's missing answer. */
  readonly outcome?: "upstreamFailed" | "timedOut";
}

/**
 * What the client asked. Header names are lower case; `path` has no query, `query` no question mark. It is for reading
 * only: requests with the same head share their headers on a connection. In strict mode it is frozen.
 */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Path and query exactly as received, without scheme and authority. */
  readonly target: string;
  readonly headers: Readonly<IncomingHttpHeaders>;
  /** Flat name, value … exactly as received. */
  readonly rawHeaders: readonly string[];
  /** Values of `{name}` segments of the route's path, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** The client's address: the socket's, or `X-Forwarded-For`'s behind `server.trustProxy`. */
  readonly address: string;
  /** The other end of the socket, and whether `server.trustProxy` lists it: then its `X-Forwarded-*` fields count. */
  readonly peer: { readonly address: string; readonly trusted: boolean };
  /** True when the request announces a body (`Content-Length` above 0, or chunked). */
  readonly hasBody: boolean;
}

/** The head of the response on its way up. Names are compared without case; order is kept. */
export interface ResponseHead {
  status: number;
  /** `step` when a step on the way down (or the core) answered instead of the surface. */
  readonly from: "step" | "surface";
  /** True when the body is streamed: its size and what it will cost are not known yet. */
  readonly streamed: boolean;
  /** The code of a refusal, else undefined. */
  readonly code: string | undefined;
  get(name: string): string | undefined;
  /** Replaces every field of that name. */
  set(name: string, value: string): void;
  /** Adds a field, keeping those that are there. */
  add(name: string, value: string): void;
  remove(name: string): void;
}

/**
 * Where a surface streams its answer. The head has been sent through `responseHeaders` when you hold one.
 * Exactly one of `end` and `fail` MUST be called, once.
 */
export interface Sink {
  /**
   * Sends a borrowed chunk, or a text: for what is small and many, text costs less, and least in latin1, which is bytes
   * as characters. False asks to stop until `onDrain` runs (backpressure from the client).
   */
  write(chunk: Uint8Array | string, encoding?: "utf8" | "latin1"): boolean;
  /** Called each time the client has room again after `write` returned false. */
  onDrain: (() => void) | undefined;
  /**
   * Sends the last byte, after every `responseEnd` hook; resolves when it has been handed to the socket. `last` is the
   * chunk that tells a client that all is well (`data: [DONE]`): it waits for the hooks too. `outcome`: the answer
   * itself says that it is not whole (an error as the last event of a stream).
   */
  end(
    trailers?: readonly string[],
    last?: Uint8Array,
    outcome?: "upstreamFailed" | "timedOut",
  ): Promise<void>;
  /** The answer cannot be completed: the connection is cut so that the client cannot take it for whole. */
  fail(outcome: "upstreamFailed" | "timedOut"): void;
}

/** What a surface accepts an upgrade with. */
export interface AcceptOptions {
  /** The subprotocol to select, one of those that the client offers; undefined: none. */
  readonly protocol: string | undefined;
  /** The largest message taken, bytes; a larger one closes the connection with 1009. */
  readonly messageBytes: number;
}

/**
 * A WebSocket that a surface has accepted (RFC 6455). It ends when either side has closed it, and so does the exchange.
 */
export interface Connection {
  /** Sends a message, text or binary. False asks to stop until `onDrain` runs (backpressure from the client). */
  send(message: string | Uint8Array): boolean;
  /** Called each time the client has room again after `send` returned false. */
  onDrain: (() => void) | undefined;
  /** Told each message; what comes before it is set is kept. */
  onMessage: ((data: Buffer, isText: boolean) => void) | undefined;
  /** Told once when the connection has ended, with the client's close code (1006: without one). */
  onClose: ((code: number) => void) | undefined;
  /** The gateway is stopping: finish what runs, then `close`. Called at most once. */
  onGoAway: (() => void) | undefined;
  /** Messages wait with the client until `resume`. */
  pause(): void;
  resume(): void;
  /**
   * Starts the closing handshake; the connection is cut if the client does not answer it soon. `reason`: at most 123
   * bytes.
   */
  close(code: number, reason: string): void;
}

/** One request and its answer. Valid until `settled` returns. Its methods must be called on it, not destructured. */
export interface Exchange {
  readonly request: RequestHead;
  /** The route's path as written in pipeline.yaml and its surface's name: safe as metric labels. */
  readonly route: { readonly path: string; readonly surface: string };
  /** `clock.now()` and `clock.monotonic()` at arrival, milliseconds. */
  readonly arrivedAt: number;
  readonly arrivedMonotonic: number;

  /** Reads a slot that the manifest names in `needs`. Throws (a bug) when it was never set. */
  get<S extends SlotName>(slot: S): Slots[S];
  /** Reads a slot named in `wants`: undefined when nobody has set it. */
  peek<S extends SlotName>(slot: S): Slots[S] | undefined;
  /** Sets a slot named in `provides`. Throws (a bug) when it is already set. */
  set<S extends SlotName>(slot: S, value: Slots[S]): void;

  /** The whole body, when the route buffers it (a `requestBody` hook, or a surface with `body`). Borrowed. */
  readonly body: Buffer | undefined;
  /** Replaces the buffered body, for the hooks below and the surface. */
  replaceBody(body: Buffer): void;
  /**
   * Lets go of the buffered body and of what was parsed of it, for a surface that has read it and streams for long:
   * from here on there is none, on the way up too.
   */
  dropBody(): void;
  /**
   * The body parsed as JSON, once for all plugins: `{ ok: false }` when it is not JSON in UTF-8, or when it has more than
   * 65,536 members and elements or more than 128 levels.
   */
  json(): { readonly ok: true; readonly value: unknown } | { readonly ok: false };
  /** The body as a stream, for a surface that declared no `body`. Reading it sends `100 Continue` where asked for. */
  bodyStream(): Readable;

  /** Aborts when the client has left or the gateway cuts the exchange. Created on first use. */
  readonly signal: AbortSignal;
  /**
   * Told at most once, when `signal` would abort: what a hot path sets instead of asking for a signal. An object and
   * not a function: a closure that is stored for each request makes V8 keep the whole exchange until its next major
   * collection (measured on Node 26: 6 to 9 µs a request).
   */
  onAbort: { aborted(): void } | undefined;
  /** True once the client has gone. */
  readonly clientLeft: boolean;
  /** Opens a streamed answer: runs `responseHeaders` and sends the head. Only for surfaces, at most once. */
  stream(status: number, headers: readonly string[]): Promise<Sink>;
  /**
   * Accepts the upgrade on a route with `websocket: true`: runs `responseHeaders`, answers 101. Only for surfaces that
   * declare `websocket`, at most once; instead of it a Reply refuses. `answer` resolves when the surface is done with
   * it.
   */
  accept(options: AcceptOptions): Promise<Connection>;
  /**
   * A limit left no room for the request or, where it holds several calls, for one of them: told by whoever explains
   * the exchange, not sent. The last one counts, and a Reply's `reached` before it.
   */
  limitReached(reached: LimitReached): void;
  /**
   * Reports one call that the exchange carried (a node method, a tool, a model), when the call has ended. Call it once
   * per call, also for calls that were refused or failed in an answer with HTTP status 200.
   */
  called(report: CallReport): void;
  /** All calls reported so far; undefined if there were none. */
  readonly calls: ReportedCalls | undefined;
  /** Sends a 1xx (103 Early Hints) before the answer. */
  informational(status: number, headers: readonly string[]): void;

  /**
   * What was sent so far: status 0 before the head. For `settled`, where `code` is that of the last failed call if the
   * answer itself was not a refusal.
   */
  readonly sent: {
    readonly status: number;
    readonly bodyBytes: number;
    readonly code: string | undefined;
  };
}

type Awaitable<T> = T | Promise<T>;

/** Every member but `start` is what `sluice check` reads without running the plugin. */
interface Manifest<Options> {
  /** Kebab case; the name used in pipeline.yaml and the folder's name. */
  readonly name: string;
  /** One sentence, shown by `sluice check --json` and on /pipelines. */
  readonly description: string;
  /** JSON Schema of the options, an object schema with `additionalProperties: false`; absent: takes none. */
  readonly options?: JsonSchema;
  /** Slots that must be provided earlier. */
  readonly needs?: SlotPhases;
  /** Slots that are used if something provides them earlier. */
  readonly wants?: SlotPhases;
  /** Slots that this plugin sets, each in the phase named. One provider a route. */
  readonly provides?: SlotPhases;
  /** Services that this plugin asks `host.use` for. They are started before the plugin and stopped after it. */
  readonly uses?: readonly ServiceName[];
  /**
   * Checks what a schema cannot say (a name that must exist, two options that exclude each other).
   * Each string is one fault; `pointer` is a JSON Pointer into the options for its position.
   */
  readonly check?: (
    options: Options,
    host: Host,
  ) => readonly { pointer: string; message: string }[];
}

/** The surface, as a step that stands around it sees it. */
export interface Surrounded {
  /** The surface's own `atomic`. */
  readonly atomic: boolean;
  /**
   * Asks for the answer, at most once: a Reply, or undefined once the surface has streamed it. Throws what it throws.
   */
  readonly answer: () => Awaitable<Reply | undefined>;
}

/** What steps and surfaces may add to their manifest for the OpenAPI document of the deployment. */
interface Documented<Options> {
  /**
   * What the plugin takes, answers and refuses at a method of a route. Called while a generation is loaded, the options
   * being sound; `host.tools` is complete. Absent: a surface is documented as one that may answer anything.
   */
  readonly operation?: (options: Options, place: OperationPlace, host: Host) => Operation;
}

/**
 * The hooks of a step. A hook that is absent costs nothing. A synchronous hook costs no promise. A promise that takes
 * longer than `timeoutMs` of the step's entry in pipeline.yaml fails the exchange; what it brings later is ignored.
 */
export interface StepHooks {
  requestHeaders?(x: Exchange): Awaitable<Reply | void>;
  requestBody?(x: Exchange, body: Buffer): Awaitable<Reply | void>;
  /** The most bytes that `requestBody` accepts; above: 413. The smallest cap of a route counts. */
  readonly bodyBytes?: number;
  /** The status of a body above the route's cap, where it is not 413. */
  readonly tooLargeStatus?: number;
  /** `requestBody` reads the body as JSON: see `SurfaceHooks.body.json`. */
  readonly json?: boolean;
  /**
   * Stands around the surface, for what must begin and end with its answer (a transaction): nothing else of the
   * exchange runs meanwhile. It asks the surface and returns what that returned; any other Reply is its own.
   */
  around?(x: Exchange, surface: Surrounded): Awaitable<Reply | undefined>;
  responseHeaders?(x: Exchange, head: ResponseHead): Awaitable<void>;
  /** Returns a replacement or nothing. The chunk is borrowed: never kept after the call. */
  responseChunk?(x: Exchange, chunk: Uint8Array): Uint8Array | void;
  /**
   * Runs before the last byte leaves. A Reply replaces the answer if no byte has left, else the exchange is cut.
   * `outcome` is there where the answer itself says that it is not whole.
   */
  responseEnd?(x: Exchange, outcome?: Reply["outcome"]): Awaitable<Reply | void>;
  settled?(x: Exchange, outcome: Outcome): void;
  /** Ends timers and connections. Runs when no exchange uses the plugin any more. */
  stop?(): Awaitable<void>;
}

export interface Step<Options = Record<string, never>>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "step";
  start(options: Options, host: Host): Awaitable<StepHooks>;
}

/** The hooks of a surface. */
export interface SurfaceHooks {
  /**
   * Present: the core reads the whole body first. `types` are the accepted media types; any other is 415. `json`: the body
   * is JSON, and one with more than 65,536 members and elements or more than 128 levels is 400 before any hook gets it;
   * the default is true if `types` names a JSON type.
   */
  readonly body?: {
    readonly bytes: number;
    readonly types?: readonly string[];
    readonly json?: boolean;
  };
  /**
   * It answers with a Reply and no promise, and all that it changes lies in the accounts (`host.workspaces`,
   * `host.networks.override`): both can be kept in one transaction.
   */
  readonly atomic?: boolean;
  /** Answers with a Reply, or streams through `x.stream` and resolves to undefined when the stream has ended. */
  answer(x: Exchange): Awaitable<Reply | undefined>;
  stop?(): Awaitable<void>;
}

export interface Surface<Options = Record<string, never>>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "surface";
  /** It answers upgrades (`Exchange.accept`), and nothing else: its routes have `websocket: true`. */
  readonly websocket?: boolean;
  start(options: Options, host: Host): Awaitable<SurfaceHooks>;
}

/** What a started `tools` plugin brings. */
export interface ToolsHooks {
  readonly tools: readonly Tool<never>[];
  readonly resources?: readonly Resource[];
  readonly resourceTemplates?: readonly ResourceTemplate[];
  readonly prompts?: readonly Prompt[];
  stop?(): Awaitable<void>;
}

/** Adds tools, documents to read and prompts to the catalogue that all tool surfaces share. */
export interface ToolsPlugin<Options = Record<string, never>> extends Manifest<Options> {
  readonly kind: "tools";
  start(options: Options, host: Host): Awaitable<ToolsHooks>;
}

/** The hooks of a service. */
export interface ServiceHooks<Provided> {
  /** The object that `host.use` returns to other plugins. */
  readonly service: Provided;
  /**
   * Resolves when the service knows whether it can serve, for example after its first probe. A start or a reload waits
   * for it, for at most 2 s.
   */
  readonly initialized?: Promise<void>;
  /** Returns true if the service can serve, else the reason why it cannot. The answer of `/readyz` depends on it. */
  ready?(): true | string;
  stop?(): Awaitable<void>;
}

/**
 * Owns something long-lived that other plugins use, such as a backend, a store or a pool. Its options are a section of
 * their own at the top level of pipeline.yaml, under the name of the plugin. One instance runs per distinct section. A
 * reload keeps it if the section, the plugin's code and the services that it uses are unchanged.
 */
export interface Service<
  Options = Record<string, never>,
  Provided = unknown,
> extends Manifest<Options> {
  readonly kind: "service";
  /**
   * Returns a stand-in for the service that touches nothing outside the process: no file, no socket. `sluice check`
   * starts the other plugins with it. Without it, `sluice check` starts the service itself and stops it again.
   */
  readonly dryRun?: (options: Options, host: Host) => Provided;
  start(options: Options, host: Host): Awaitable<ServiceHooks<Provided>>;
}

export type Plugin = Step<never> | Surface<never> | ToolsPlugin<never> | Service<never>;

/** Declares a step: it looks at, changes or refuses an exchange on its way. */
export function defineStep<Options>(step: Omit<Step<Options>, "kind">): Step<Options> {
  return { kind: "step", ...step };
}

/** Declares a surface: it answers a route. */
export function defineSurface<Options>(surface: Omit<Surface<Options>, "kind">): Surface<Options> {
  return { kind: "surface", ...surface };
}

/** Declares a plugin that adds tools. Its manifest has no slots: tools see a caller, not an exchange. */
export function defineTools<Options>(
  tools: Omit<ToolsPlugin<Options>, "kind" | "needs" | "wants" | "provides">,
): ToolsPlugin<Options> {
  return { kind: "tools", ...tools };
}

/** Declares a service, which other plugins reach by `host.use`. */
export function defineService<Options, Provided>(
  service: Omit<Service<Options, Provided>, "kind" | "needs" | "wants" | "provides">,
): Service<Options, Provided> {
  return { kind: "service", ...service };
}
