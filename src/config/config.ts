/**
 * The parsed pipeline.yaml: environment variables are expanded, defaults are filled in, and lists are flattened. Only
 * `read.ts` creates it; no other code interprets the file.
 */
import type { Grants } from "../contract/permissions.ts";
import type { Environment } from "../plugin.ts";
import type { Position } from "./fault.ts";
import type { Located } from "./located.ts";

export interface PluginUse {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly at: Position;
  /** Returns the position of a part of the options (`/limit`), or of the plugin if the part is missing. */
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
  readonly source: string;
  /** Undefined if the file does not state grants. A missing member grants nothing. */
  readonly grants: Partial<Grants> | undefined;
  readonly at: Position;
}

export const defaultTimeoutMs = 30_000;

export interface RouteConfig {
  /** Literal segments, `{name}` segments, and an optional final `*` that matches the rest. */
  readonly path: string;
  /** Methods in upper case. `GET` includes `HEAD`. `*` means any method. */
  readonly methods: readonly string[];
  readonly websocket: boolean;
  /** Name of the `{name}` segment that contains the credential of the caller. Undefined if none does. */
  readonly credential?: string | undefined;
  readonly run: readonly StepUse[];
  readonly to: PluginUse;
  readonly at: Position;
  /** Steps with `mode: off`, which are checked, but never started. */
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
  /** Backends that `/readyz` requires: one, all, or those with these names (and at least one). */
  readonly ready: "any" | "all" | readonly string[];
  readonly headersMs: number;
  /** Maximum pause within a body. */
  readonly bodyIdleMs: number;
  /** Limit of the bytes that clients make the gateway hold. Undefined if it follows from the memory of the process. */
  readonly unfinishedBodyBytes?: number;
  readonly connections: number;
  readonly keepAliveMs: number;
  readonly threads: number;
  readonly fastPath: boolean;
}

export interface Config {
  readonly file: string;
  readonly text: string;
  /** Returns the position of the key, else of the nearest enclosing key, else the top of the file. */
  keyAt(pointer: string): Position;
  /** Undefined if the position is before the first section. */
  sectionOf(at: Position): string | undefined;
  readonly environment: Environment;
  readonly server: ServerConfig;
  readonly admin: {
    readonly host: string;
    readonly port: number;
    readonly hosts: readonly string[];
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
  readonly tools: readonly PluginUse[];
  /** Sections that services which ship with Sluice own or extend, with their defaults. */
  readonly sections: Readonly<Record<string, unknown>>;
  /** Includes keys whose values have faults. */
  readonly keysOf: (pointer: string) => string[];
  /** Returns whether the value at a JSON Pointer is the default of an environment variable that is not set. */
  isDefault(pointer: string): boolean;
  /**
   * Sorted so that each service comes after those that it uses. Until the plugins are loaded, these are the sections
   * that have the name of a plugin under `plugins:`.
   */
  readonly services: readonly PluginUse[];
  readonly plugins: ReadonlyMap<string, ThirdPartyPlugin>;
  readonly fastify: readonly PluginUse[];
  /** Steps for requests that match no route (404, 405). */
  readonly unmatched: readonly StepUse[];
  readonly unmatchedOff?: readonly PluginUse[];
  readonly unmatchedIncomplete?: boolean;
  readonly routes: readonly RouteConfig[];
}
