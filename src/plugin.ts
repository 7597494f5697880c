/**
 * The plugin contract: everything that a plugin may know about Sluice.
 *
 * A request runs down an ordered list of **steps** to a **surface** that answers it, and the answer runs back up the
 * same steps. `pipeline.yaml` is the only place where that order is written. A plugin is a plain object: first a
 * manifest (name, options, the slots that it needs and provides), then `start`, which returns its hooks. The contract
 * has no `next()`, no priorities and no base class. Only a step that must begin and end together with the surface's
 * answer wraps the surface (`around`). The plugins that ship with Sluice and third-party plugins use the same file,
 * exported as `sluice-gateway/plugin`.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import type { CallReport, ReportedCalls } from "./contract/called.ts";
import type { GatewayInfo } from "./contract/gateway.ts";
import type { Host } from "./contract/host.ts";
import type { JsonSchema } from "./contract/json.ts";
import type { Operation, OperationPlace } from "./contract/operation.ts";
import type { SluiceCode } from "./errors.ts";
import type { Resource, Tool } from "./plugin.ts";
import type { Prompt, ResourceTemplate } from "./prompt.ts";

export type * from "./services.ts";
export type * from "./services/accounts.ts";
export type * from "./services/accounts-admin.ts";
export { capabilities } from "./services/accounts.ts";
export type * from "./services/clock.ts";
export type * from "./services/compute.ts";
export type * from "./services/confidential.ts";
export type * from "./services/decoder.ts";
export type * from "./services/evidence.ts";
export type * from "./services/gateway.ts";
export type * from "./services/idempotency.ts";
export type * from "./services/json.ts";
export type * from "./services/ledger.ts";
export type * from "./services/log.ts";
export type * from "./services/meter.ts";
export type * from "./services/metrics.ts";
export type * from "./services/network-kinds.ts";
export type * from "./services/networks.ts";
export type * from "./services/pricing.ts";
export type * from "./services/routes.ts";
export type * from "./services/store.ts";
export type * from "./services/tickets.ts";
export type * from "./services/trace.ts";
export type * from "./services/upstream.ts";
export type * from "./services/usage.ts";
export type * from "./services/workspaces.ts";
export type * from "./tool.ts";
export type * from "./prompt.ts";
export type * from "./operation.ts";
export type * from "./called.ts";
export { toolFailure, toolReport } from "./plugin.ts";
export { addressKey } from "./address.ts";
export { BoundedMap } from "./bounded-map.ts";
export { isObject } from "./is-object.ts";
export { modelJson, modelList, modelListSchema, modelSchema } from "./model-list.ts";
export { parseJson } from "./parse-json.ts";
export { readRequest as readJsonRpc } from "./http/json/request.ts";
export { parseTime } from "./rfc3339.ts";
export { violationsSchema } from "./violations.ts";
export { refuse, type GatewayCode } from "./errors.ts";
export { redact } from "./redact.ts";

/**
 * The phases in which a plugin can act, in the order in which an exchange passes them.
 *
 * | phase | runs | may |
 * |---|---|---|
 * | `requestHeaders` | down the list | reply (then nothing below runs and no upstream is called) |
 * | `requestBody` | down the list, with the whole body, which is read once | replace the body, reply |
 * | `answer` | in the surface only | answer |
 * | `responseHeaders` | up the list | change status and headers |
 * | `responseChunk` | up the list, synchronously, with borrowed chunks | replace a chunk |
 * | `responseEnd` | up the list, before the last byte leaves | wait; refuse if no byte has left yet |
 * | `settled` | up the list, exactly once, however the exchange ended | release, charge, log |
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
 * Values that plugins pass to one another, by name. A plugin adds its slot by declaration merging,
 * `declare module "sluice-gateway/plugin" { interface Slots { tenant: Tenant } }`, and lists it in `provides`.
 */
export interface Slots {
  /** Id of the request: 1 to 128 visible ASCII characters. */
  requestId: string;
}
export type SlotName = keyof Slots & string;
/** Maps the name of a slot to the phase in which it is set (`provides`) or first read (`needs`, `wants`). */
export type SlotPhases = Partial<Record<SlotName, Phase>>;

/**
 * Facts about an exchange for logs, traces, statistics and `sluice explain`. The plugin that knows a fact adds it with
 * `Exchange.note`. Observers read it from `Exchange.facts` and need no slot for it. A plugin that decides something
 * must use a slot instead, because facts can be missing. Facts are kept for some time after the exchange has ended, so
 * they must be small and must not keep anything else alive. A plugin adds its own facts by declaration merging.
 */
export interface Facts {
  requestId: string;
  caller: Caller;
}
export type NotedFacts = { [F in keyof Facts]?: Facts[F] | undefined };

/** The caller of an exchange, as the step that has identified it describes it. Missing for unknown callers. */
export interface Caller {
  /** Id of the credential, for example of an API key. */
  readonly id: string;
  /** Name of the group that the credential belongs to, for example a workspace. */
  readonly group: string;
  /** Number of requests that the caller may send at the same time. */
  readonly burst: number;
  /** True if the caller operates the gateway and may see how it handles requests (`X-Sluice-Trace`). */
  readonly isOperator: boolean;
}

/**
 * Services by name, for `host.use`. A plugin of kind `service` adds its own type by declaration merging:
 * `declare module "sluice-gateway/plugin" { interface ServiceTypes { "acme-store": AcmeStore } }`.
 */
export interface ServiceTypes {}
export type ServiceName = keyof ServiceTypes & string;

/**
 * How an exchange ended. `complete`: the answer of the surface was sent to its last byte. `replied`: a step answered
 * instead of the surface.
 */
export type Outcome = "complete" | "replied" | "clientLeft" | "upstreamFailed" | "timedOut";

/** A limit that a request would exceed. */
export interface LimitReached {
  /** The scope in which requests or credit are counted: `key`, `address`, `24h`, `plan` … */
  readonly scope: string;
  readonly unit: "requests" | "milli-CU";
  readonly used: number;
  readonly limit: number;
  /**
   * When the limit leaves room again, in milliseconds since 1970. Missing if the plugin does not know. A function is
   * called each time the limit is shown. It must not keep the exchange or the host alive.
   */
  readonly clearsAt?: number | (() => number | undefined);
}

/**
 * An answer of known size. A plugin returns a Reply for an expected failure and never throws for it. `refuse` makes the
 * Reply for a failure with a code.
 */
export interface Reply {
  readonly status: number;
  /** A flat list of name, value, name, value … in the order in which they are sent. The core adds `Content-Length`. */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array;
  /** The `GATEWAY_*` code of a refusal, for logs and metrics. */
  readonly code?: string;
  /** The limit that refused the request, for `sluice explain`. It is not sent to the client. */
  readonly reached?: LimitReached;
  /** How the exchange ends, if the reply replaces the missing answer of an upstream. */
  readonly outcome?: "upstreamFailed" | "timedOut";
}

/**
 * The head of the client's request. Header names are in lower case. `path` does not contain the query, and `query` does
 * not contain the question mark. Do not change the object: requests on a connection that have the same head share their
 * headers. Strict mode freezes it.
 */
export interface RequestHead {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  /** Path and query exactly as received, without scheme and authority. */
  readonly target: string;
  readonly headers: Readonly<IncomingHttpHeaders>;
  /** A flat list of name, value … exactly as received. */
  readonly rawHeaders: readonly string[];
  /** Values of the `{name}` segments of the route's path, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /**
   * Address of the client: the address of the socket, or the one in `X-Forwarded-For` if the peer is listed in
   * `server.trustProxy`.
   */
  readonly address: string;
  /**
   * The other end of the socket. `trusted`: true if `server.trustProxy` lists it; then its `X-Forwarded-*` fields are
   * used.
   */
  readonly peer: { readonly address: string; readonly trusted: boolean };
  /** True if the request announces a body (`Content-Length` above 0, or chunked). */
  readonly hasBody: boolean;
}

/** The head of the response on its way up. Names are case-insensitive, and the order of the fields is kept. */
export interface ResponseHead {
  status: number;
  /** `step` if a step on the way down (or the core) answered instead of the surface. */
  readonly from: "step" | "surface";
  /** True if the body is streamed. Its size and its cost are then not known yet. */
  readonly streamed: boolean;
  /** The code of a refusal. Undefined if the response is not a refusal. */
  readonly code: string | undefined;
  get(name: string): string | undefined;
  /** Replaces every field with this name. */
  set(name: string, value: string): void;
  /** Adds a field and keeps the existing fields with this name. */
  add(name: string, value: string): void;
  remove(name: string): void;
}

/**
 * A streamed answer of a surface. The head has already passed `responseHeaders` and has been sent. The surface MUST
 * call exactly one of `end` and `fail`, exactly once.
 */
export interface Sink {
  /**
   * Sends a borrowed chunk or a string. Prefer strings for many small chunks; `latin1` (one byte per character) is the
   * cheapest. Returns false if the surface should stop until `onDrain` runs (backpressure from the client).
   */
  write(chunk: Uint8Array | string, encoding?: "utf8" | "latin1"): boolean;
  /** Called each time the client has room again after `write` returned false. */
  onDrain: (() => void) | undefined;
  /**
   * Runs every `responseEnd` hook and then sends the last byte. Resolves when the last byte has been handed to the
   * socket. `last`: the chunk that reports success to the client (`data: [DONE]`); it is sent after the hooks, too.
   * `outcome`: set if the answer itself reports that it is incomplete (an error as the last event of a stream).
   */
  end(
    trailers?: readonly string[],
    last?: Uint8Array,
    outcome?: "upstreamFailed" | "timedOut",
  ): Promise<void>;
  /**
   * Reports that the answer cannot be completed. The connection is cut, so that the client cannot mistake the answer
   * for a complete one.
   */
  fail(outcome: "upstreamFailed" | "timedOut"): void;
}

/** The options with which a surface accepts an upgrade. */
export interface AcceptOptions {
  /** The subprotocol to select, one of those that the client offers. Undefined for no subprotocol. */
  readonly protocol: string | undefined;
  /** Maximum size of a message in bytes. A larger message closes the connection with code 1009. */
  readonly messageBytes: number;
}

/**
 * A WebSocket that a surface has accepted (RFC 6455). When either side has closed it, the exchange ends, too.
 */
export interface Connection {
  /**
   * Sends a text or binary message. Returns false if the surface should stop until `onDrain` runs (backpressure from
   * the client).
   */
  send(message: string | Uint8Array): boolean;
  /** Called each time the client has room again after `send` returned false. */
  onDrain: (() => void) | undefined;
  /** Called for each message. Messages received before it is set are queued. */
  onMessage: ((data: Buffer, isText: boolean) => void) | undefined;
  /** Called once when the connection has ended, with the client's close code (1006 if the client sent none). */
  onClose: ((code: number) => void) | undefined;
  /** Called at most once, when the gateway is stopping. Finish the running work, then call `close`. */
  onGoAway: (() => void) | undefined;
  /** Stops reading messages, so that they wait at the client until `resume`. */
  pause(): void;
  resume(): void;
  /**
   * Starts the closing handshake. The connection is cut if the client does not answer soon. `reason`: at most 123
   * bytes.
   */
  close(code: number, reason: string): void;
}

/**
 * One request and its answer. Valid until `settled` returns. Call its methods on the object; they cannot be
 * destructured.
 */
export interface Exchange {
  readonly request: RequestHead;
  /**
   * The path of the route, as written in pipeline.yaml, and the name of its surface. Both are safe as metric labels.
   */
  readonly route: { readonly path: string; readonly surface: string };
  /** `clock.now()` and `clock.monotonic()` at arrival, in milliseconds. */
  readonly arrivedAt: number;
  readonly arrivedMonotonic: number;

  /** Reads a slot that the manifest lists in `needs`. Throws if the slot was never set, which is a bug. */
  get<S extends SlotName>(slot: S): Slots[S];
  /** Reads a slot that the manifest lists in `wants`. Undefined if no plugin has set it. */
  peek<S extends SlotName>(slot: S): Slots[S] | undefined;
  /** Sets a slot that the manifest lists in `provides`. Throws if it is already set, which is a bug. */
  set<S extends SlotName>(slot: S, value: Slots[S]): void;

  /** Adds a fact for observers: see `Facts`. A later value replaces an earlier one. */
  note<F extends keyof Facts>(name: F, value: Facts[F] | undefined): void;
  /** The facts that were noted so far. */
  readonly facts: Readonly<NotedFacts>;

  /**
   * The whole body, if the route buffers it (for a `requestBody` hook or a surface with `body`). The bytes are
   * borrowed.
   */
  readonly body: Buffer | undefined;
  /** Replaces the buffered body for the hooks below and the surface. */
  replaceBody(body: Buffer): void;
  /**
   * Releases the buffered body and its parsed value. Meant for a surface that has read the body and streams for a long
   * time. After this call `body` is undefined, on the way up too.
   */
  dropBody(): void;
  /**
   * Returns the body parsed as JSON. It is parsed once for all plugins. `{ ok: false }` if the body is not JSON in
   * UTF-8, or has more than 65,536 members and elements or more than 128 levels.
   */
  json(): { readonly ok: true; readonly value: unknown } | { readonly ok: false };
  /**
   * Returns the body as a stream, for a surface that does not declare `body`. Reading from it sends `100 Continue` if
   * the client asked for that.
   */
  bodyStream(): Readable;

  /** Aborts when the client has left or the gateway cuts the exchange. Created on first use. */
  readonly signal: AbortSignal;
  /**
   * Called at most once, when `signal` would abort. A hot path sets it instead of creating a signal. It is an object
   * and not a function, because a closure that is stored for each request makes V8 keep the whole exchange until its
   * next major collection (measured on Node 26: 6 to 9 µs per request).
   */
  onAbort: { aborted(): void } | undefined;
  /** True after the client has left. */
  readonly clientLeft: boolean;
  /** Opens a streamed answer: runs `responseHeaders` and sends the head. Only for surfaces, at most once. */
  stream(status: number, headers: readonly string[]): Promise<Sink>;
  /**
   * Accepts the upgrade on a route with `websocket: true`: runs `responseHeaders` and answers 101. Only for surfaces
   * that declare `websocket`, at most once. To refuse the upgrade, return a Reply instead. `answer` resolves when the
   * surface has finished with the connection.
   */
  accept(options: AcceptOptions): Promise<Connection>;
  /**
   * Records the limit that refused the request (or one call of a batch), for `sluice explain`; it is not sent to the
   * client. The last recorded limit is shown, unless a Reply has `reached`.
   */
  limitReached(reached: LimitReached): void;
  /**
   * Reports one call that the exchange carried (a node method, a tool, a model), when the call has ended. Call it once
   * per call, also for calls that were refused or failed in an answer with HTTP status 200.
   */
  called(report: CallReport): void;
  /** All calls that were reported so far. Undefined if there were none. */
  readonly calls: ReportedCalls | undefined;
  /** Sends a 1xx (103 Early Hints) before the answer. */
  informational(status: number, headers: readonly string[]): void;

  /**
   * The part of the response that was sent so far. `status` is 0 before the head is sent. In `settled`, `code` is the
   * code of the last failed call if the answer itself was not a refusal.
   */
  readonly sent: {
    readonly status: number;
    readonly bodyBytes: number;
    readonly code: string | undefined;
  };
}

type Awaitable<T> = T | Promise<T>;

/** The members that `sluice check` reads without running the plugin: all except `start`. */
interface Manifest<Options> {
  /** Name of the plugin in kebab case, as used in pipeline.yaml. It is also the name of the plugin's folder. */
  readonly name: string;
  /** One sentence, shown by `sluice check --json` and on /pipelines. */
  readonly description: string;
  /**
   * JSON Schema of the options: an object schema with `additionalProperties: false`. Missing if the plugin has no
   * options.
   */
  readonly options?: JsonSchema;
  /** Slots that an earlier plugin must provide. */
  readonly needs?: SlotPhases;
  /** Slots that the plugin uses if an earlier plugin provides them. */
  readonly wants?: SlotPhases;
  /** Slots that this plugin sets, each with the phase. A slot has at most one provider per route. */
  readonly provides?: SlotPhases;
  /** Services that this plugin gets from `host.use`. They start before the plugin and stop after it. */
  readonly uses?: readonly ServiceName[];
  /**
   * Checks rules that a schema cannot express (a name that must exist, two options that exclude each other). Returns
   * one entry per fault. `pointer`: a JSON Pointer into the options, from which the position in the file is found.
   */
  readonly check?: (
    options: Options,
    host: Host,
  ) => readonly { pointer: string; message: string }[];
}

/** The surface, and the steps between, as the step sees them that wraps them with `around`. */
export interface InnerSurface {
  /** The `atomic` member of the surface. */
  readonly atomic: boolean;
  /**
   * Runs the surface. May be called at most once. Returns its Reply, or undefined after the surface has streamed its
   * answer. Throws the errors that the surface throws.
   */
  readonly answer: () => Awaitable<Reply | undefined>;
}

/** The member that steps and surfaces may add to their manifest for the OpenAPI document of the deployment. */
interface Documented<Options> {
  /**
   * Describes the plugin's part of one method of a route: what it accepts, answers and refuses. Called while a
   * generation is loaded, with valid options; services are running. A surface without it is documented as one that
   * may answer anything.
   */
  readonly operation?: (options: Options, place: OperationPlace, host: Host) => Operation;
}

/** The last argument of the hooks of a step. Hooks of a step without a state can be called without it. */
type StateOf<State> = unknown extends State ? [state?: unknown] : [state: State];

/**
 * The hooks of a step. A missing hook costs nothing, and a synchronous hook costs no promise. If a promise takes longer
 * than `timeoutMs` of the step's entry in pipeline.yaml, the exchange fails and a later result is ignored.
 */
export interface StepHooks<State = unknown> {
  /**
   * Returns the step's own data of one exchange, which no other plugin sees. Called before the first hook of the step.
   * All hooks get the result as their last argument. Use a slot for values that other plugins read.
   */
  createState?(x: Exchange): State;
  requestHeaders?(x: Exchange, ...state: StateOf<State>): Awaitable<Reply | void>;
  requestBody?(x: Exchange, body: Buffer, ...state: StateOf<State>): Awaitable<Reply | void>;
  /**
   * Maximum number of bytes that `requestBody` accepts. A larger body is answered with 413. The smallest limit of a
   * route applies.
   */
  readonly bodyBytes?: number;
  /** The status with which a body above the route's limit is answered, instead of 413. */
  readonly tooLargeStatus?: number;
  /** True if `requestBody` reads the body as JSON: see `SurfaceHooks.body.json`. */
  readonly json?: boolean;
  /**
   * Wraps the surface, for work that must begin and end together with its answer (a transaction). No other hook of the
   * exchange runs meanwhile. Calls `surface.answer` and returns its result. If it returns any other Reply, the step has
   * answered itself.
   */
  around?(
    x: Exchange,
    surface: InnerSurface,
    ...state: StateOf<State>
  ): Awaitable<Reply | undefined>;
  responseHeaders?(x: Exchange, head: ResponseHead, ...state: StateOf<State>): Awaitable<void>;
  /** Returns a replacement or nothing. The chunk is borrowed: do not keep it after the call. */
  responseChunk?(x: Exchange, chunk: Uint8Array, ...state: StateOf<State>): Uint8Array | void;
  /**
   * Runs before the last byte leaves. A returned Reply replaces the answer if no byte has left yet; otherwise the
   * connection is cut. `outcome`: set if the answer itself reports that it is incomplete.
   */
  responseEnd?(
    x: Exchange,
    outcome?: Reply["outcome"],
    ...state: StateOf<State>
  ): Awaitable<Reply | void>;
  settled?(x: Exchange, outcome: Outcome, ...state: StateOf<State>): void;
  /** Ends timers and connections. Called when no exchange uses the plugin any more. */
  stop?(): Awaitable<void>;
}

export interface Step<Options = Record<string, never>, State = unknown>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "step";
  start(options: Options, host: Host): Awaitable<StepHooks<State>>;
}

/** The hooks of a surface. */
export interface SurfaceHooks {
  /**
   * If present, the core reads the whole body first. `bytes`: maximum size. `types`: the accepted media types; others
   * are answered with 415. `json`: true if the body is JSON. Then a body with more than 65,536 members and elements or
   * more than 128 levels is answered with 400 before any hook gets it. The default is true if `types` lists a JSON
   * type.
   */
  readonly body?: {
    readonly bytes: number;
    readonly types?: readonly string[];
    readonly json?: boolean;
  };
  /**
   * True if the surface answers synchronously with a Reply and changes only the accounts database (`workspaces` of the
   * service `accounts`, `override` of the service `networks`). The changes and the Reply can then be stored in one
   * transaction.
   */
  readonly atomic?: boolean;
  /** Returns a Reply, or streams through `x.stream` and resolves to undefined when the stream has ended. */
  answer(x: Exchange): Awaitable<Reply | undefined>;
  stop?(): Awaitable<void>;
}

export interface Surface<Options = Record<string, never>>
  extends Manifest<Options>, Documented<Options> {
  readonly kind: "surface";
  /** True if the surface answers only upgrades (`Exchange.accept`). Its routes must have `websocket: true`. */
  readonly websocket?: boolean;
  start(options: Options, host: Host): Awaitable<SurfaceHooks>;
}

/** The tools, resources and prompts of a started `tools` plugin. */
export interface ToolsHooks {
  readonly tools: readonly Tool<never>[];
  readonly resources?: readonly Resource[];
  readonly resourceTemplates?: readonly ResourceTemplate[];
  readonly prompts?: readonly Prompt[];
  stop?(): Awaitable<void>;
}

/** Adds tools, resources and prompts to the catalogue that all tool surfaces share. */
export interface ToolsPlugin<Options = Record<string, never>> extends Manifest<Options> {
  readonly kind: "tools";
  start(options: Options, host: Host): Awaitable<ToolsHooks>;
}

/** One backend that a service reaches, for `/readyz` and the dashboard. */
export interface BackendStatus {
  /** Kind of the backend, such as `network`. The gateway is ready if one backend of each kind is. */
  readonly kind: string;
  /** The name of its check in the answer of `/readyz`, such as `upstream ledger`. */
  readonly title: string;
  /** True if the backend can be used, else the reason why it cannot. */
  readonly ready: true | string;
  /** The address is a default that nobody configured. The gateway may be ready without such a backend. */
  readonly isDefault?: boolean;
  /** Values that the dashboard shows. They are converted to JSON. */
  readonly details?: object;
}

/** The hooks of a service. */
export interface ServiceHooks<Provided> {
  /** The object that `host.use` returns to other plugins. */
  readonly service: Provided;
  /**
   * Called after all plugins have started. Resolves when the service knows whether it can serve, for example after its
   * first probe. A start or a reload waits for it, for at most 2 s.
   */
  initialized?(): Promise<void>;
  /**
   * Returns true if the service can serve, else the reason why it cannot. The answer of `/readyz` depends on it. A
   * service with more than one thing to report returns a map from the names of checks to such values.
   */
  ready?(): true | string | Readonly<Record<string, true | string>>;
  /** Returns the backends that are in use. */
  backends?(): readonly BackendStatus[];
  /**
   * Answers the requests on the admin listener whose path begins with `/` and the name of the service. Their Host
   * header has been checked; their bodies are unread. The service checks who may see what.
   */
  admin?(request: IncomingMessage, response: ServerResponse): void;
  stop?(): Awaitable<void>;
}

/** What a service gets in addition to `host`. */
export interface ServiceContext {
  /**
   * Returns the part under this key: the one that another instance of this service holds, else the result of `open`. A
   * part is closed when the last instance that holds it has stopped. In this way a database or a pool outlives a reload
   * that changes other parts of the section. All parts of a key must be of the same type.
   */
  readonly keep: <Part>(
    key: string,
    open: () => Part,
    close: (part: Part) => Awaitable<void>,
  ) => Part;
  /**
   * Returns whether the value at this JSON Pointer into the options comes from the default of an environment variable
   * that is not set.
   */
  readonly isDefault: (pointer: string) => boolean;
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
   * The schemas of the top-level sections that the service owns, by name. The options then have one member per section.
   * Without it, the section has the name of the plugin, and its schema is `options`. Only for services that ship with
   * Sluice.
   */
  readonly sections?: Readonly<Record<string, JsonSchema>>;
  /**
   * Schemas of members that the service adds to every entry of a section that another service or the gateway owns, by
   * section and member. The options then have a member for that section, too. Only for services that ship with Sluice.
   */
  readonly extends?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>;
  /** Names of `sections` whose changes need a restart of the gateway. Only for services that ship with Sluice. */
  readonly fixedSections?: readonly string[];
  /**
   * Gives the running service the options of a reload, which may be unchanged. Called when the new generation starts to
   * serve, and not if the load fails. A reload keeps a service with `update` although its options have changed, and so
   * the plugins that use it.
   */
  update?(service: Provided, options: Options): void;
  /**
   * Checks rules of the sections that their schemas cannot express. Unlike `check`, it is called even if no plugin uses
   * the service. Only for services that ship with Sluice.
   */
  readonly checkSections?: (
    options: Options,
    deployment: Pick<Host, "environment"> & Pick<GatewayInfo, "variable">,
  ) => readonly SectionFault[];
  /**
   * Returns a stand-in for the service that touches nothing outside the process: no file, no socket. `sluice check`
   * starts the other plugins with it. Without it, `sluice check` starts the service itself and stops it again.
   */
  readonly dryRun?: (options: Options, host: Host) => Awaitable<Provided>;
  start(options: Options, host: Host, context: ServiceContext): Awaitable<ServiceHooks<Provided>>;
}

/** A rule that the sections of a service break. */
export interface SectionFault {
  /** JSON Pointer from the top of the file. */
  readonly pointer: string;
  readonly code: SluiceCode;
  readonly message: string;
}

export type Plugin = Step<never> | Surface<never> | ToolsPlugin<never> | Service<never>;

/** Declares a step, which inspects, changes or refuses exchanges. `State`: see `StepHooks.createState`. */
export function defineStep<Options, State = unknown>(
  step: Omit<Step<Options, State>, "kind">,
): Step<Options, State> {
  return { kind: "step", ...step };
}

/** Declares a surface, which answers a route. */
export function defineSurface<Options>(surface: Omit<Surface<Options>, "kind">): Surface<Options> {
  return { kind: "surface", ...surface };
}

/** Declares a plugin that adds tools. Its manifest has no slots, because a tool gets a caller and not an exchange. */
export function defineTools<Options>(
  tools: Omit<ToolsPlugin<Options>, "kind" | "needs" | "wants" | "provides">,
): ToolsPlugin<Options> {
  return { kind: "tools", ...tools };
}

/** Declares a service, which other plugins get from `host.use`. */
export function defineService<Options, Provided>(
  service: Omit<Service<Options, Provided>, "kind" | "needs" | "wants" | "provides">,
): Service<Options, Provided> {
  return { kind: "service", ...service };
}
