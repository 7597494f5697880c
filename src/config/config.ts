/**
 * pipeline.yaml as the rest of the code sees it: environment expanded, defaults filled in, lists flattened, every step
 * with the position it was written at. Made by `read.ts`; nothing else interprets the file.
 */
import type { Environment, PlanName } from "../plugin.ts";
import type { Position } from "./fault.ts";
import type { Located } from "./located.ts";

/** Where settled charges are delivered to (src/metering/export). */
export interface UsageExportConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly everyMs: number;
  readonly batch: number;
  readonly source: string;
  readonly type: string;
  readonly subject: "workspace" | "key";
}

/** A plugin at one place of pipeline.yaml. */
export interface PluginUse {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly at: Position;
  /** Where a part of the options stands, by JSON Pointer (`/price`); the plugin's own position for what is absent. */
  positionOf(pointer: string): Position;
  /** The options as written; absent where they were not, or where the use was made in code. */
  readonly source?: Located;
  /** The options could not be read (the fault is reported): what they lack is not judged. */
  readonly incomplete?: boolean;
}

/** All named conditions must hold. */
export interface Condition {
  /** A path, or a prefix ending in `*`. */
  readonly path?: string;
  readonly methods?: readonly string[];
  /** Header name (lower case) to the exact value, or `*` for present. */
  readonly header?: Readonly<Record<string, string>>;
}

export interface StepUse extends PluginUse {
  /** Steps with `mode: off` do not get this far. */
  readonly mode: "enforce" | "shadow";
  readonly when: Condition | undefined;
  /** How long one asynchronous hook may take; 0: no limit. */
  readonly timeoutMs: number;
}

/** The limit of a step whose entry has no `timeoutMs`. */
export const defaultTimeoutMs = 30_000;

export interface RouteConfig {
  /** Literal segments, `{name}` segments, and `*` as the last segment for the rest. */
  readonly path: string;
  /** Upper case. `GET` brings `HEAD`. `*`: any method. */
  readonly methods: readonly string[];
  readonly websocket: boolean;
  readonly run: readonly StepUse[];
  readonly to: PluginUse;
  readonly at: Position;
  /** Steps with `mode: off`: checked like the others, never started. */
  readonly off?: readonly PluginUse[];
  /** Part of the route could not be read (its fault is reported): what it lacks is not judged. */
  readonly incomplete?: boolean;
}

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  /** Addresses or CIDR blocks whose `X-Forwarded-For` counts. */
  readonly trustProxy: readonly string[];
  readonly drainSeconds: number;
  readonly drainDelaySeconds: number;
  /** The whole head must arrive within this. */
  readonly headersMs: number;
  /** A body may pause this long. */
  readonly bodyIdleMs: number;
  /** Maximum number of bytes that unfinished request bodies may hold together. */
  readonly unfinishedBodyBytes: number;
  /** Maximum number of open connections. */
  readonly connections: number;
  readonly keepAliveMs: number;
}

export interface PlanConfig {
  readonly rps: number;
  readonly includedCuMilli: number;
  readonly overageUsdPerCu: string | undefined;
}

/** A backend. `forward` uses the first group of members, the node proxy all. */
export interface UpstreamConfig {
  readonly name: string;
  readonly at: Position;
  readonly urls: readonly string[];
  /** The urls are the default of a variable that is not set: nobody named this upstream. */
  readonly isDefault?: boolean;
  readonly connectMs: number;
  /** Until the head of the answer. */
  readonly headersMs: number;
  /** Between two pieces of a body. */
  readonly idleMs: number;
  /** The most connections to one url (a Substrate node allows 100 in all by default). */
  readonly connections: number;

  /** Prefix that clients use to the node's own: `ledger_` to `midnight_`. */
  readonly aliases: Readonly<Record<string, string>>;
  /** By method: `false` takes it off the whitelist, an object adds it or changes its price. */
  readonly methods: Readonly<
    Record<string, false | { readonly cuMilli?: number; readonly params?: readonly string[] }>
  >;
  /** Bound of the immutable cache; 0 turns it off. */
  readonly cacheBytes: number;
  readonly singleFlight: boolean;
  /** Items of one batch that run at once. */
  readonly batchParallel: number;
  readonly probeMs: number;
  /** Blocks behind the best node before a node is left out. */
  readonly maxLag: number;
  readonly maxHeadAgeMs: number | undefined;
  /** The largest answer taken from a node. */
  readonly answerBytes: number;
}

/** USD of one native token: a decimal, or what a JSON document says at a JSON Pointer (RFC 6901). */
export type RateConfig =
  | { readonly kind: "fixed"; readonly usd: string }
  | {
      readonly kind: "polled";
      readonly url: string;
      readonly pointer: string;
      readonly everyMs: number;
    };

/** What a network's enclaves must show before they get a request. */
export interface EvidencePolicyConfig {
  /** `simulated`: no hardware vouches; for development. */
  readonly kind: "hardware" | "simulated";
  /** Of simulated evidence: the test roots accepted, DER in base64. */
  readonly roots: readonly string[];
  /** Lower-case hex of SHA-256. */
  readonly imageHashes: readonly string[] | "any";
  /** TDX modules accepted, lower-case hex; empty: those that Intel calls up to date. */
  readonly mrseam: readonly string[];
  /** Advisories that a platform in need of hardening may have. */
  readonly advisories: readonly string[];
  /** The lowest `tcbEvaluationDataNumber` of TDX collateral. */
  readonly minTcbEvaluation: number | undefined;
  /** PPIDs or chip ids accepted, lower-case hex; undefined: any machine. */
  readonly platforms: readonly string[] | undefined;
  /** Conditions for SEV-SNP evidence; without them none is accepted. */
  readonly sevSnp: SevSnpConfig | undefined;
}

/** `any` and `false` opt out of a check. */
export interface SevSnpConfig {
  /** Security patch levels per product. */
  readonly minTcb: "any" | SnpMinimumsConfig;
  /** Whether evidence must carry AMD's current revocation list. */
  readonly requireCrl: boolean;
}

type SnpPart = "fmc" | "bootloader" | "tee" | "snp" | "microcode";

export type SnpMinimumsConfig = Readonly<
  Partial<Record<"Milan" | "Genoa" | "Turin", Readonly<Partial<Record<SnpPart, number>>>>>
>;

/** An inference network with a `url`: one without is not configured. */
export interface NetworkConfig {
  readonly name: string;
  /** What its workers speak. */
  readonly kind: "openai" | "enclave";
  /** `openai`: base URL, with or without `/v1` at its end. `enclave`: of the worker's stream, http(s) or ws(s). */
  readonly url: string;
  /** Further origins, beside that of `url`, at which its workers may be asked. */
  readonly origins: readonly string[];
  /** The url is the default of a variable that is not set: nobody named this network. */
  readonly isDefault?: boolean;
  /** Of an enclave network. */
  readonly evidence: EvidencePolicyConfig | undefined;
  /** The document that tells workers and prices; undefined: every model that the network lists is a worker. */
  readonly statusUrl: string | undefined;
  /** Between two readings of it. */
  readonly statusMs: number;
  /** Where the status does not say: a decimal, nano native tokens. */
  readonly pricePerTokenNano: string;
  /** The network's own, else the file's. */
  readonly rate: RateConfig | undefined;
  /** Sent to its servers, such as `Authorization: Bearer …`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  /** Until a streamed answer begins, and between two pieces of any. */
  readonly idleMs: number;
  /** Until an answer in one piece begins. */
  readonly answerMs: number;
  /** What a request without a limit of its own is reserved for, tokens. */
  readonly maxOutputTokens: number;
}

export interface Config {
  readonly file: string;
  /**
   * Where the key at a JSON Pointer (`/store/data`) is written. For a key that is missing: the nearest key around it,
   * or the top of the file.
   */
  keyAt(pointer: string): Position;
  /** The section in which something is written; undefined: before the first one. */
  sectionOf(at: Position): string | undefined;
  readonly environment: Environment;
  /** Evidence that no hardware vouches for may be used: everywhere but in prod, and there where it is asked for. */
  readonly simulatedAllowed: boolean;
  readonly server: ServerConfig;
  readonly admin: {
    readonly host: string;
    readonly port: number;
    /** Names under which the dashboard, /pipelines and /explain answer, beside addresses and localhost. */
    readonly hosts: readonly string[];
  };
  readonly store: {
    readonly data: string;
    readonly redis: string | undefined;
    readonly postgres: string | undefined;
  };
  readonly metering: {
    readonly durability: "settled" | "async";
    /** Undefined: usage is exported by hand alone. */
    readonly export: UsageExportConfig | undefined;
  };
  readonly plans: Readonly<Record<PlanName, PlanConfig>>;
  readonly upstreams: ReadonlyMap<string, UpstreamConfig>;
  readonly networks: readonly NetworkConfig[];
  /** What verifiers need beside this gateway's own evidence: TDX (`pccs`, `file`, absolute) and SEV-SNP (`kds`). */
  readonly collateral: {
    readonly pccs: string | undefined;
    readonly file: string | undefined;
    readonly kds: string | undefined;
  };
  readonly log: { readonly level: string };
  /** What seals sessions and confirmation tokens; undefined: made and kept in the data folder. */
  readonly secret: string | undefined;
  /** What adds tools to the catalogue, in order. */
  readonly tools: readonly PluginUse[];
  /**
   * The services, each after those that it uses. Until the plugins are loaded this holds the sections of the file that
   * are named like a plugin under `plugins:`.
   */
  readonly services: readonly PluginUse[];
  /** Third-party plugins: name to package or path. */
  readonly plugins: ReadonlyMap<string, { readonly source: string; readonly at: Position }>;
  /** Fastify plugins that wrap the whole listener. */
  readonly fastify: readonly PluginUse[];
  /** What runs for requests that no route takes (404, 405), in order. */
  readonly unmatched: readonly StepUse[];
  /** As `off` and `incomplete` of a route. */
  readonly unmatchedOff?: readonly PluginUse[];
  readonly unmatchedIncomplete?: boolean;
  readonly routes: readonly RouteConfig[];
}
