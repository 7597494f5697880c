/**
 * The parsed pipeline.yaml: environment variables are expanded, defaults are filled in, lists are flattened, and every
 * step has its position in the file. Only `read.ts` creates it; no other code interprets the file.
 */
import type { Environment, PlanName } from "../plugin.ts";
import type { Position } from "./fault.ts";
import type { Located } from "./located.ts";

/** Destination of settled charges (plugins/billing/metering/export). */
export interface UsageExportConfig {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly everyMs: number;
  readonly batch: number;
  readonly source: string;
  readonly type: string;
  readonly subject: "workspace" | "key";
}

/** One use of a plugin in pipeline.yaml. */
export interface PluginUse {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly at: Position;
  /**
   * Returns the position of a part of the options, by JSON Pointer (`/price`), or of the plugin if the part is missing.
   */
  positionOf(pointer: string): Position;
  /** The options as written. Missing if none were written or if the use was created in code. */
  readonly source?: Located;
  /** The options could not be read, and the fault is reported. Missing options are then not reported. */
  readonly incomplete?: boolean;
}

/** A request must meet all conditions that are present. */
export interface Condition {
  /** A path, or a prefix ending in `*`. */
  readonly path?: string;
  readonly methods?: readonly string[];
  /** Header name (lower case) to the exact value, or to `*` if the header only has to be present. */
  readonly header?: Readonly<Record<string, string>>;
}

export interface StepUse extends PluginUse {
  /** Steps with `mode: off` are removed earlier. */
  readonly mode: "enforce" | "shadow";
  readonly when: Condition | undefined;
  /** Time limit of one asynchronous hook. 0 means no limit. */
  readonly timeoutMs: number;
}

/** Time limit of a step without `timeoutMs`. */
export const defaultTimeoutMs = 30_000;

export interface RouteConfig {
  /** Literal segments, `{name}` segments, and an optional final `*` that matches the rest. */
  readonly path: string;
  /** In upper case. `GET` includes `HEAD`. `*` means any method. */
  readonly methods: readonly string[];
  readonly websocket: boolean;
  readonly run: readonly StepUse[];
  readonly to: PluginUse;
  readonly at: Position;
  /** Steps with `mode: off`. They are checked, but never started. */
  readonly off?: readonly PluginUse[];
  /** Part of the route could not be read, and its fault is reported. Missing parts are then not reported. */
  readonly incomplete?: boolean;
}

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  /** Addresses or CIDR blocks of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustProxy: readonly string[];
  readonly drainSeconds: number;
  readonly drainDelaySeconds: number;
  /** Time limit for the whole request head to arrive. */
  readonly headersMs: number;
  /** Maximum pause within a body. */
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

/**
 * Price of one native token in USD: a fixed decimal, or a value polled from a JSON document at a JSON Pointer (RFC
 * 6901).
 */
export type RateConfig =
  | { readonly kind: "fixed"; readonly usd: string }
  | {
      readonly kind: "polled";
      readonly url: string;
      readonly pointer: string;
      readonly everyMs: number;
    };

/** Conditions that the evidence of a network's enclaves must meet before they receive a request. */
export interface EvidencePolicyConfig {
  /** `simulated`: evidence without hardware, for development. */
  readonly kind: "hardware" | "simulated";
  /** Accepted test roots of simulated evidence, DER in base64. */
  readonly roots: readonly string[];
  /** Accepted SHA-256 hashes, in lower-case hex. */
  readonly imageHashes: readonly string[] | "any";
  /** Accepted TDX modules, in lower-case hex. If empty, the modules that Intel reports as up to date. */
  readonly mrseam: readonly string[];
  /** Advisories that are accepted on a platform that needs software hardening. */
  readonly advisories: readonly string[];
  /** Minimum `tcbEvaluationDataNumber` of TDX collateral. */
  readonly minTcbEvaluation: number | undefined;
  /** Accepted PPIDs or chip ids, in lower-case hex. Undefined if any machine is accepted. */
  readonly platforms: readonly string[] | undefined;
  /** Conditions for SEV-SNP evidence. Undefined if no SEV-SNP evidence is accepted. */
  readonly sevSnp: SevSnpConfig | undefined;
}

/** Conditions for SEV-SNP evidence. `any` and `false` disable a check. */
export interface SevSnpConfig {
  /** Minimum security patch levels per product. */
  readonly minTcb: "any" | SnpMinimumsConfig;
  /** Whether evidence must carry AMD's current revocation list. */
  readonly requireCrl: boolean;
}

type SnpPart = "fmc" | "bootloader" | "tee" | "snp" | "microcode";

export type SnpMinimumsConfig = Readonly<
  Partial<Record<"Milan" | "Genoa" | "Turin", Readonly<Partial<Record<SnpPart, number>>>>>
>;

/** An inference network. Networks without a `url` are disabled and not listed. */
export interface NetworkConfig {
  readonly name: string;
  /** Protocol of its workers. */
  readonly kind: "openai" | "enclave";
  /** `openai`: base URL, with or without `/v1` at the end. `enclave`: URL of the worker's stream, http(s) or ws(s). */
  readonly url: string;
  /** Origins, in addition to that of `url`, to which requests for its workers may be sent. */
  readonly origins: readonly string[];
  /** The url is the default of an environment variable that is not set, so nobody configured this network. */
  readonly isDefault?: boolean;
  /** Undefined if the network is not an enclave network. */
  readonly evidence: EvidencePolicyConfig | undefined;
  /** Document with workers and prices. Undefined if every model that the network lists is a worker. */
  readonly statusUrl: string | undefined;
  /** Interval between two reads of the status. */
  readonly statusMs: number;
  /** Price if the status has none: a decimal, in nano native tokens. */
  readonly pricePerTokenNano: string;
  /** The rate of the network, else the rate at the top level of the file. */
  readonly rate: RateConfig | undefined;
  /** Headers sent to its servers, such as `Authorization: Bearer …`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly connectMs: number;
  /** Time limit until a streamed answer begins, and between two chunks of any answer. */
  readonly idleMs: number;
  /** Time limit until an answer that is not streamed begins. */
  readonly answerMs: number;
  /** Number of output tokens for which credit is reserved if the request has no limit. */
  readonly maxOutputTokens: number;
}

export interface Config {
  readonly file: string;
  /**
   * Returns the position of the key at a JSON Pointer (`/store/data`). If the key is missing, returns the position of
   * the nearest enclosing key, or the top of the file.
   */
  keyAt(pointer: string): Position;
  /** Returns the section that contains a position. Undefined if the position is before the first section. */
  sectionOf(at: Position): string | undefined;
  readonly environment: Environment;
  /** Whether simulated evidence may be used: outside prod always, in prod with CONFIDENTIAL_ALLOW_SIMULATED=1. */
  readonly simulatedAllowed: boolean;
  readonly server: ServerConfig;
  readonly admin: {
    readonly host: string;
    readonly port: number;
    /** Host names that the dashboard, /metrics, /pipelines and /explain accept, besides IP addresses and localhost. */
    readonly hosts: readonly string[];
  };
  readonly store: {
    readonly data: string;
    readonly redis: string | undefined;
    readonly postgres: string | undefined;
  };
  readonly metering: {
    readonly durability: "settled" | "async";
    /** Undefined if usage is only exported by hand. */
    readonly export: UsageExportConfig | undefined;
  };
  readonly plans: Readonly<Record<PlanName, PlanConfig>>;
  readonly networks: readonly NetworkConfig[];
  /** Sources of collateral for verifiers: TDX (`pccs`; `file`, an absolute path) and SEV-SNP (`kds`). */
  readonly collateral: {
    readonly pccs: string | undefined;
    readonly file: string | undefined;
    readonly kds: string | undefined;
  };
  readonly log: { readonly level: string };
  /** Seals sessions and confirmation tokens. If undefined, a secret is generated and kept in the data folder. */
  readonly secret: string | undefined;
  /** Plugins that add tools to the catalogue, in order. */
  readonly tools: readonly PluginUse[];
  /** The values of the sections that services which ship with Sluice own or extend, with defaults, by name. */
  readonly sections: Readonly<Record<string, unknown>>;
  /** Returns the keys of the mapping at a JSON Pointer, also those whose values have faults. */
  readonly keysOf: (pointer: string) => string[];
  /** Returns whether the value at a JSON Pointer is the default of an environment variable that is not set. */
  isDefault(pointer: string): boolean;
  /**
   * The services, each one after the services that it uses. Until the plugins are loaded, the sections of the file
   * that have the name of a plugin under `plugins:`.
   */
  readonly services: readonly PluginUse[];
  /** Third-party plugins, by name. `source` is a package or a path. */
  readonly plugins: ReadonlyMap<string, { readonly source: string; readonly at: Position }>;
  /** Fastify plugins that wrap the whole listener. */
  readonly fastify: readonly PluginUse[];
  /** Steps for requests that match no route (404, 405), in order. */
  readonly unmatched: readonly StepUse[];
  /** Like `off` and `incomplete` of a route. */
  readonly unmatchedOff?: readonly PluginUse[];
  readonly unmatchedIncomplete?: boolean;
  readonly routes: readonly RouteConfig[];
}
