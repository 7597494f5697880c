/**
 * The services that plugins reach through `host`: types only, so that a third party can build on them as we do.
 * Their implementations live in the folders named beside each one.
 */
import type { Tools } from "./tool.ts";
import type { Exchange, Reply } from "./plugin.ts";

/** A JSON Schema (draft 2020-12 subset that ajv reads). */
export type JsonSchema = Readonly<Record<string, unknown>>;
export type Environment = "dev" | "stage" | "prod";

/** What a plugin instance gets beside its options. One instance per distinct options; it may serve many routes. */
export interface Host {
  readonly environment: Environment;
  /** `shadow`: what this instance refuses is counted and logged, never sent. Services it hands out must not refuse. */
  readonly mode: "enforce" | "shadow";
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly meter: Meter;
  /** The catalogue of this generation. While a `tools` plugin starts it is not complete yet. */
  readonly tools: Tools;
  readonly seal: Seal;
  readonly claims: Claims;
  /** The inference networks; empty where none is configured. */
  readonly networks: Networks;
  /** Who attests what this deployment runs on; undefined where nobody does. */
  readonly evidence: Evidence | undefined;
  /** Sluice's own version, as in its package.json. */
  readonly version: string;
  /** Reads a JSON-RPC 2.0 body strictly, a call or a batch of at most `maxItems`, and makes values of nothing in it. */
  readJsonRpc(body: Buffer, maxItems: number): JsonRpcBody;
  /** The Substrate node pool named in `upstreams`; undefined when there is none of that name. */
  ledger(upstream: string): Ledger | undefined;
  /** Reads blocks, events and accounts of the node pool named in `upstreams`; undefined when there is none of that name. */
  decoder(upstream: string): Decoder | undefined;
  /** A streamed way to the upstream of that name; undefined when there is none. Its connections are shared. */
  forwarder(upstream: string, options?: ForwardOptions): Forwarder | undefined;
  /** Any upstream of pipeline.yaml by name. */
  upstream(name: string): Upstream | undefined;
  /** The folder of pipeline.yaml: relative paths in options start there. */
  readonly folder: string;
}

// ── log, clock, metrics ─────────────────────────────────────────────────────────────────────────────────────────

type LogLine = (fields: object, message: string) => void;
/** Structured log (pino). Never pass a secret: `authorization` and key texts are redacted, prompts are not. */
export interface Log {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  child(fields: object): Log;
}

/** All time comes from here, so that a test can hold it still. */
export interface Clock {
  /** Wall clock, integer milliseconds since 1970. May jump. */
  now(): number;
  /** Milliseconds that never go back; origin arbitrary, fractional. */
  monotonic(): number;
  /** Runs `task` after `ms`. Does not keep the process alive. Dispose to cancel. */
  after(ms: number, task: () => void): Disposable;
  /** Runs `task` every `ms`. Does not keep the process alive. */
  every(ms: number, task: () => void): Disposable;
}

/** Prometheus metrics. Bind label values once, at start: the data path only adds numbers. Labels never from user input. */
export interface Metrics {
  counter<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
  ): Family<L, Counter>;
  gauge<L extends string = never>(
    name: string,
    help: string,
    labels?: readonly L[],
  ): Family<L, Gauge>;
  /** `buckets`: upper bounds in the metric's unit (seconds for latencies), ascending. */
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: readonly L[],
  ): Family<L, Histogram>;
}
export interface Family<L extends string, M> {
  /** The series with these label values; the same object for the same values. */
  with(labels: Readonly<Record<L, string>>): M;
}
export interface Counter {
  add(n: number): void;
}
export interface Gauge {
  set(n: number): void;
}
export interface Histogram {
  observe(value: number): void;
}

// ── accounts (src/accounts) ─────────────────────────────────────────────────────────────────────────────────────

export type PlanName = "free" | "developer" | "startup" | "enterprise";
export type Capability =
  | "ledger:read"
  | "ledger:write"
  | "platform:read"
  | "docs:read"
  | "inference"
  | "workspace:admin"
  | "platform:admin";

/** The terms of a plan, from `plans` in pipeline.yaml. CU amounts are integers in milli-CU. */
export interface Plan {
  readonly name: PlanName;
  readonly rps: number;
  readonly includedCuMilli: number;
  /** USD per CU beyond the included and purchased amount, decimal string; undefined: no overage. */
  readonly overageUsdPerCu: string | undefined;
}

export interface Workspace {
  readonly id: string;
  readonly name: string;
  readonly plan: PlanName;
  readonly pendingPlan: PlanName | undefined;
  /** Milliseconds since 1970: the first instant of the period from which `pendingPlan` holds. */
  readonly pendingPlanAt: number | undefined;
  /** All that was ever bought, milli-CU; what is left of it is the meter's to say. */
  readonly purchasedTotalCuMilli: number;
  readonly overageLimitCuMilli: number | undefined;
  readonly createdAt: number;
}

export interface ApiKey {
  readonly id: string;
  readonly workspaceId: string;
  readonly name: string;
  readonly environment: Environment;
  readonly capabilities: ReadonlySet<Capability>;
  readonly rpsLimit: number | undefined;
  readonly cuLimit24hMilli: number | undefined;
  readonly cuLimit30dMilli: number | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

/** Who is calling. The same object for every request of a key while nothing about it has changed. */
export type Principal = KeyPrincipal | Anonymous;
export interface KeyPrincipal {
  readonly kind: "key";
  readonly key: ApiKey;
  readonly workspace: Workspace;
  /** The plan in force now. */
  readonly plan: Plan;
  /** min(key override, plan), requests per second. */
  readonly rps: number;
}
export interface Anonymous {
  readonly kind: "anonymous";
  /** The message of the 401 that a protected route answers with. */
  readonly reason:
    | "missing authorization header"
    | "invalid authorization format"
    | "unauthorized"
    | "api key has expired";
}

/** Who the agent behind a request says it is (the X-Agent-* headers): bounded text, proves nothing. */
export interface Agent {
  readonly name: string | undefined;
  readonly version: string | undefined;
  readonly sessionId: string | undefined;
  readonly provider: string | undefined;
  readonly capabilities: readonly string[] | undefined;
}

export interface Accounts {
  /** Who sent this `Authorization` header. Synchronous; never throws; changes are seen within 1 s. */
  identify(authorization: string | undefined): Principal;
}

// ── meter (src/metering) ────────────────────────────────────────────────────────────────────────────────────────

/** One charge as the journal keeps it. `costMilli` is a non-negative safe integer. */
export interface ChargeLine {
  readonly surface: string;
  readonly method: string;
  readonly model?: string;
  readonly costMilli: number;
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly estimated?: boolean;
  readonly outcome?: string;
}

/** Why a reservation did not fit; `details` of the 429 (decisions.md section 3). */
export interface CuRefusal {
  readonly kind: "refused";
  readonly window: "24h" | "30d" | undefined;
  readonly usedCuMilli: number;
  readonly limitCuMilli: number;
}

/** Credit taken from every scope at once and not yet charged. Exactly one of `settle` and `release` ends it. */
export interface Reservation {
  readonly kind: "reserved";
  readonly costMilli: number;
  /** Of a `streamed` one: resolves when its intent is on disk, and no byte may leave before; rejects when it cannot be. */
  readonly journalled?: Promise<void> | undefined;
  /**
   * Charges the lines (their sum may differ from what was reserved) and frees the rest. Resolves when the charge is on
   * disk (at once with `metering.durability: async`); rejects when it could not be written, and then charges nothing.
   */
  settle(lines: readonly ChargeLine[]): Promise<void>;
  /** Frees it without a charge. Does nothing after `settle`. */
  release(): void;
}

export interface Meter {
  /**
   * Takes `costMilli` from 24h, 30d and plan at once, or from none.
   * `streamed`: bytes will leave before the charge settles, so the intent is journalled first and a crash can find it.
   * `force`: takes it whatever the limits say (a meter in shadow mode counts, and refuses nothing).
   * While the journal cannot write, answers `{ kind: "unavailable" }` (503): nothing is served unmetered.
   */
  reserve(
    principal: KeyPrincipal,
    costMilli: number,
    about: {
      readonly requestId: string;
      readonly surface: string;
      /** What the agent calls itself, for the record of a charge: printable, bounded. */
      readonly agent?: string | undefined;
      readonly streamed?: boolean | undefined;
      readonly force?: boolean | undefined;
    },
  ): Reservation | CuRefusal | { readonly kind: "unavailable" };
}

/** One call's share of an exchange's account, where an exchange holds several calls. End it exactly once. */
export interface ChargePart {
  /** Charges the lines and gives back the rest. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  release(): void;
}

/** The slot `charge` of the `meter` step: the exchange's own account. */
export interface Charge {
  /** Reserves; a Reply is the refusal to send (429 with details, 503). Adds to an earlier reservation. */
  reserve(costMilli: number, options?: { readonly streamed?: boolean }): Reply | undefined;
  /** Says what is really owed. Called at most once. The core waits for the disk before the last byte leaves. */
  settle(lines: readonly Omit<ChargeLine, "surface">[]): void;
  /**
   * Reserves for one of several calls of the exchange, which settles or releases on its own. Beside parts, `reserve` and
   * `settle` are not used.
   */
  open(costMilli: number): ChargePart | CuRefusal | { readonly kind: "unavailable" };
  /** Sum of the settled lines, of parts too; undefined before anything was settled. */
  readonly usedMilli: number | undefined;
  /**
   * After `reserve` with `streamed`: await it before the first byte. Resolves when a crash can no longer lose the
   * reservation; a Reply is the refusal to send instead (503, the journal cannot be written).
   */
  readonly journalled?: Promise<Reply | undefined> | undefined;
}

// ── ledger (src/ledger) ─────────────────────────────────────────────────────────────────────────────────────────

/** One whitelisted node method. */
export interface LedgerMethod {
  readonly name: string;
  /** As in the specification: `["storageKey", "blockHash?"]`. */
  readonly params: readonly string[];
  readonly cuMilli: number;
}

/** What a node said. Bytes are the node's own, borrowed. `failed`: no answer of any node; nothing is owed. */
export type LedgerAnswer =
  | { readonly kind: "result"; readonly bytes: Buffer }
  | { readonly kind: "error"; readonly bytes: Buffer }
  | { readonly kind: "failed"; readonly reason: "unreachable" | "timeout" | "garbage" | "aborted" };

export interface Ledger {
  /** The whitelist, by the name that clients use. */
  readonly methods: ReadonlyMap<string, LedgerMethod>;
  /**
   * A method for the gateway's own needs, whitelisted or not, for `call`: every known read, and
   * `author_submitExtrinsic`. `name` MUST NOT come from a client. Throws (a bug) for a name that is neither.
   */
  internal(name: string): LedgerMethod;
  /**
   * Calls a method of `methods` or `internal` with raw JSON `params` bytes (empty: none). Cached, shared with identical reads in
   * flight, retried on another node where safe. Synchronous when the answer is at hand. Never rejects.
   * `signal`: the caller has left; a shared call goes on for the others.
   */
  call(
    method: LedgerMethod,
    params: Buffer,
    options?: { readonly signal?: AbortSignal },
  ): LedgerAnswer | Promise<LedgerAnswer>;
  /** Reads and prices a JSON-RPC body (a call or a batch), by decisions.md section 5. Nothing is sent yet. */
  rpc(body: Buffer): LedgerRpc;
}

/** A JSON-RPC body on its way: reserve its cost, `run` it once, then settle its `lines`. */
export interface LedgerRpc {
  /** The sum over the calls that it holds; 0 when there is nothing to reserve. */
  readonly costMilli: number;
  /**
   * Makes the calls. The JSON-RPC answer in UTF-8, which is not to be written to; undefined when the body held only
   * notifications. Synchronous when everything is at hand. Never rejects. What a batch has not begun is left out once
   * the caller has left.
   */
  run(caller?: {
    readonly clientLeft: boolean;
  }): string | Uint8Array | undefined | Promise<string | Uint8Array | undefined>;
  /** After `run`: what is owed, a line for each call that a node has answered. */
  readonly lines: readonly Pick<ChargeLine, "method" | "costMilli">[];
  /** After `run`: why no node answered, when that befell every call of the body. */
  readonly failure: "unreachable" | "timeout" | "garbage" | "aborted" | undefined;
}

// ── decoder (src/ledger/decode) ─────────────────────────────────────────────────────────────────────────────────

/** Why something could not be decoded. Nothing here quotes a node. */
export interface DecodeFailure {
  readonly ok: false;
  /**
   * `unknownBlock`: no node knows it, or has its state any more. `undecodable`: the bytes are not what the runtime's
   * metadata says. `wrongAccount`: this chain's account ids have another length.
   * `unreachable`: no node answered, or the answer was none of this method's. `timeout`, `busy`: the worker pool.
   * `aborted`: the signal.
   */
  readonly reason:
    | "unknownBlock"
    | "undecodable"
    | "wrongAccount"
    | "unreachable"
    | "timeout"
    | "busy"
    | "aborted";
}
/** Finished JSON text. */
export type DecodedJson = { readonly ok: true; readonly json: string } | DecodeFailure;

/** A call as a person reads it: integers as decimal strings, bytes as hex, accounts as addresses, enums as `{ Variant: … }`. */
export interface CallSummary {
  /** As the metadata spells them. */
  readonly pallet: string;
  readonly method: string;
  /** The signer's address; null for a bare or general extrinsic. */
  readonly signer: string | null;
  /** Plain JSON values by argument name, cut at a bounded size (`…` marks the cut). */
  readonly args: Readonly<Record<string, unknown>>;
}

interface DecodeOptions {
  /** The caller has left; what others share goes on. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads what a node answers by its runtime's metadata, which is fetched once per runtime version. Never rejects.
 * Block hashes are `0x` and 64 hex digits; the caller has checked that.
 */
export interface Decoder {
  /**
   * `decodedExtrinsics` of a block: a JSON array of `{ index, pallet, method, args, isSigned, raw }`. `block` holds the
   * node's `chain_getBlock` result bytes, unchanged, and is only borrowed. One bad extrinsic fails alone (`unknown`).
   */
  extrinsics(block: Buffer, blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /** A JSON array of `{ index, phase, pallet, event, data }`. */
  events(blockHash: string, options?: DecodeOptions): Promise<DecodedJson>;
  /**
   * `{ nonce, consumers, providers, sufficients, data: { free, reserved, miscFrozen, feeFrozen } }`; zeros for an account
   * that does not exist and for what the chain does not have. `blockHash` undefined: the best block.
   */
  account(
    accountId: Uint8Array,
    blockHash: string | undefined,
    options?: DecodeOptions,
  ): Promise<DecodedJson>;
  /** The id of an SS58 address (32 or 20 bytes, any prefix, checksum verified) or of `0x` and 40 or 64 hex digits. */
  accountId(address: string): Uint8Array | undefined;
  /** What an extrinsic (with its length prefix) would do, by the best block's runtime; for confirmations. */
  summary(
    extrinsic: Uint8Array,
    options?: DecodeOptions,
  ): Promise<{ readonly ok: true; readonly summary: CallSummary } | DecodeFailure>;
}

// ── networks and evidence (src/inference, src/confidential) ─────────────────────────────────────────────────────

/** One model as the catalogue shows it: prices per token in integer milli-CU, at the median of its active workers. */
export interface ModelEntry {
  readonly network: string;
  readonly modelId: string;
  readonly activeWorkers: number;
  readonly promptPriceCUMilli: number;
  readonly completionPriceCUMilli: number;
  readonly cachedPriceCUMilli: number;
}

export interface Networks {
  /** What a network lists, or all of them, in a stable order; nothing for a network that is not configured. */
  models(network?: string): readonly ModelEntry[];
}

/** An attestation quote and what it vouches for. */
export interface Quote {
  /** Base64. */
  readonly quote: string;
  /** Hex of a SHA-256. */
  readonly imageHash: string;
  /** Hex of the 64 bytes that the quote carries. */
  readonly reportData: string;
  /** Whether the quote carries the bytes asked for as they are, or a hash of them. */
  readonly binding: "raw" | "hashed";
  readonly teeType: string;
  /** No hardware vouches for it. */
  readonly simulated: boolean;
}

export interface Evidence {
  /** A fresh quote that binds these 64 bytes; undefined: an image-only one. `failed`: nobody made one. */
  quote(
    reportData: Uint8Array | undefined,
    signal: AbortSignal,
  ): Promise<
    | { readonly kind: "quote"; readonly quote: Quote }
    | { readonly kind: "failed"; readonly reason: "unavailable" | "timeout" | "aborted" }
  >;
}

// ── JSON-RPC (src/stream/json) ──────────────────────────────────────────────────────────────────────────────────

/** `id` and `params` are JSON text as sent; `params` is an array or object, or empty where there are none. */
export type JsonRpcItem =
  | {
      readonly kind: "call";
      readonly id: string;
      readonly method: string;
      readonly params: string;
    }
  /** A valid request without an id: nobody waits for an answer. */
  | { readonly kind: "notification"; readonly method: string; readonly params: string }
  /** Not a request. `id` is the one to answer with: its own where it can be told, else `null`. */
  | { readonly kind: "invalid"; readonly id: string };

export type JsonRpcBody =
  | { readonly kind: "single"; readonly item: JsonRpcItem }
  | { readonly kind: "batch"; readonly items: readonly JsonRpcItem[] }
  /** JSON, but neither an object nor an array of 1 to `maxItems`. */
  | { readonly kind: "invalid" }
  /** Not JSON, not UTF-8, or nested deeper than 128. */
  | { readonly kind: "malformed" };

// ── sealing and claims (src/seal, src/store) ────────────────────────────────────────────────────────────────────

/** Tokens that only this deployment can make: self-describing, signed with GATEWAY_SECRET, valid on every replica. */
export interface Seal {
  /** `purpose` keeps tokens of one use from being taken for another's. `expiresAt`: milliseconds since 1970. */
  seal(purpose: string, value: object, expiresAt: number): string;
  /** The value sealed for that purpose; undefined when forged or sealed for another. Expiry is the caller's to judge. */
  open(
    purpose: string,
    token: string,
  ): { readonly value: unknown; readonly expiresAt: number } | undefined;
}

/** Things that may happen once, whoever asks: kept in the store, across replicas and restarts. */
export interface Claims {
  /** True for the first caller of this id; remembered until `until` (milliseconds since 1970). Durable when it returns. */
  claim(id: string, until: number): boolean;
  /** Whether it was claimed. */
  has(id: string): boolean;
}

// ── upstreams ───────────────────────────────────────────────────────────────────────────────────────────────────

/** What changes on the way through a forwarder. Header names in any case. */
export interface ForwardOptions {
  readonly request?: FieldChanges;
  readonly response?: FieldChanges;
  /** Sends the client's `Authorization`, which holds its API key, to the upstream. */
  readonly passAuthorization?: boolean;
  /** The largest request body, bytes; undefined: any. */
  readonly bodyBytes?: number;
}
export interface FieldChanges {
  /** Sent instead of any field of the same name. */
  readonly set?: Readonly<Record<string, string>>;
  readonly remove?: readonly string[];
}

/** The streamed way to an upstream (src/stream): bodies pass in both directions and are held in neither. */
export interface Forwarder {
  /**
   * Sends the request on, with `target` (path and query, `/…`) in place of its own, and streams the answer back.
   * Resolves to a Reply when nothing reached the client (503 of a failed upstream, 413), to undefined when the
   * answer has ended, however it did. Rejects only for bugs.
   */
  forward(x: Exchange, target?: string): Promise<Reply | undefined>;
}

/** An upstream of pipeline.yaml as written there, defaults filled in. */
export interface Upstream {
  readonly name: string;
  readonly urls: readonly string[];
  readonly connectMs: number;
  readonly headersMs: number;
  readonly idleMs: number;
  /** The most connections to one url. */
  readonly connections: number;
}
