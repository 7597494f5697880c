/**
 * The parsed pipeline.yaml: environment variables are expanded, defaults are filled in, lists are flattened, and every
 * step has its position in the file. Only `read.ts` creates it; no other code interprets the file.
 */
import type { Grants } from "../contract/permissions.ts";
import type { Environment } from "../plugin.ts";
import type { Position } from "./fault.ts";
import type { Located } from "./located.ts";

export interface PluginUse {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly at: Position;
  /**
   * Returns the position of a part of the options, by JSON Pointer (`/limit`), or of the plugin if the part is missing.
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
  /** `skip`: a request continues without the step if the step fails. */
  readonly onError: "refuse" | "skip";
}

export interface ThirdPartyPlugin {
  /** A package, a module of a package, or a path. */
  readonly source: string;
  /** Everything that the plugin may ask for, if the file states it. A missing member grants nothing. */
  readonly grants: Partial<Grants> | undefined;
  readonly at: Position;
}

/** Time limit of a step without `timeoutMs`. */
export const defaultTimeoutMs = 30_000;

export interface RouteConfig {
  /** Literal segments, `{name}` segments, and an optional final `*` that matches the rest. */
  readonly path: string;
  /** In upper case. `GET` includes `HEAD`. `*` means any method. */
  readonly methods: readonly string[];
  readonly websocket: boolean;
  /** Name of the `{name}` segment that contains the credential of the caller. Undefined if none does. */
  readonly credential?: string | undefined;
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
  /** Absolute paths of the certificate and its key. Undefined if clients connect without TLS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Addresses or CIDR blocks of proxies whose `X-Forwarded-For` is trusted. */
  readonly trustProxy: readonly string[];
  readonly drainSeconds: number;
  readonly drainDelaySeconds: number;
  /**
   * The backends that `/readyz` requires: at least one, all, or those with these names (and at least one).
   */
  readonly ready: "any" | "all" | readonly string[];
  /** Time limit for the whole request head to arrive. */
  readonly headersMs: number;
  /** Maximum pause within a body. */
  readonly bodyIdleMs: number;
  /**
   * Maximum number of bytes that clients may make the gateway hold. Undefined if it follows from the memory of the
   * process.
   */
  readonly unfinishedBodyBytes?: number;
  /** Maximum number of open connections. */
  readonly connections: number;
  readonly keepAliveMs: number;
  readonly threads: number;
  /** Serve ordinary requests without node:http. */
  readonly fastPath: boolean;
}

export interface Config {
  readonly file: string;
  /** The text of the file, before environment variables are expanded. */
  readonly text: string;
  /**
   * Returns the position of the key at a JSON Pointer (`/store/data`). If the key is missing, returns the position of
   * the nearest enclosing key, or the top of the file.
   */
  keyAt(pointer: string): Position;
  /** Undefined if the position is before the first section. */
  sectionOf(at: Position): string | undefined;
  readonly environment: Environment;
  readonly server: ServerConfig;
  readonly admin: {
    readonly host: string;
    readonly port: number;
    /** Host names that the dashboard, /metrics, /pipelines and /explain accept, besides IP addresses and localhost. */
    readonly hosts: readonly string[];
    /** Addresses or CIDR blocks of proxies whose `X-Forwarded-For` is trusted. */
    readonly trustProxy: readonly string[];
  };
  readonly store: {
    readonly data: string;
    readonly redis: string | undefined;
    readonly postgres: string | undefined;
    readonly replica: string | undefined;
  };
  readonly log: { readonly level: string };
  /** Seals sessions and confirmation tokens. If undefined, a secret is generated and kept in the data folder. */
  readonly secret: string | undefined;
  /** Plugins that add tools to the catalogue, in order. */
  readonly tools: readonly PluginUse[];
  /** The values of the sections that services which ship with Sluice own or extend, with defaults, by name. */
  readonly sections: Readonly<Record<string, unknown>>;
  /** Returns the keys of the mapping at a JSON Pointer, including those whose values have faults. */
  readonly keysOf: (pointer: string) => string[];
  /** Returns whether the value at a JSON Pointer is the default of an environment variable that is not set. */
  isDefault(pointer: string): boolean;
  /**
   * The services, each one after the services that it uses. Until the plugins are loaded, the sections of the file
   * that have the name of a plugin under `plugins:`.
   */
  readonly services: readonly PluginUse[];
  readonly plugins: ReadonlyMap<string, ThirdPartyPlugin>;
  /** Fastify plugins that wrap the whole listener. */
  readonly fastify: readonly PluginUse[];
  /** Steps for requests that match no route (404, 405), in order. */
  readonly unmatched: readonly StepUse[];
  /** Like `off` and `incomplete` of a route. */
  readonly unmatchedOff?: readonly PluginUse[];
  readonly unmatchedIncomplete?: boolean;
  readonly routes: readonly RouteConfig[];
}
