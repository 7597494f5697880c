/** The object through which plugins reach the gateway. */
import type { Clock } from "./clock.ts";
import type { Compute } from "./compute.ts";
import type { Log } from "./log.ts";
import type { Memory } from "./memory.ts";
import type { Metrics } from "./metrics.ts";
import type { Awaitable } from "./phase.ts";
import type { ServiceName, ServiceTypes } from "./service-types.ts";
import type { PluginStorage } from "./storage.ts";
import type { Claims, Seal, Store } from "./store.ts";
import type { Threads } from "./threads.ts";
import type { UpstreamClient, UpstreamClientOptions } from "./upstream.ts";

/** The environment that a deployment belongs to, and the environments that an API key can be valid in. */
export type Environment = "dev" | "stage" | "prod";

/**
 * The object that a plugin instance gets together with its options. There is one instance per distinct set of options,
 * and it may serve many routes.
 *
 * `store`, `seal`, `claims`, `use`, `variable` and `upstream` give what the manifest permits, and throw an Error for
 * everything else. The other members need no permission, because they reach only the plugin's own data and work.
 */
export interface Host {
  readonly environment: Environment;
  /**
   * `shadow`: the refusals of this instance are counted and logged but not sent. Values that it puts into slots must
   * not refuse, either.
   */
  readonly mode: "enforce" | "shadow";
  /**
   * True in strict mode (tests and `sluice dev`). Services then return promises wherever their types allow it, so that a
   * missing `await` fails at once.
   */
  readonly strict: boolean;
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** The data folder and the shared databases. Needs `store` under `permissions.deployment`. */
  readonly store: Store;
  /** Threads for work that would block requests. */
  readonly compute: Compute;
  /** Needs `seal` under `permissions.deployment`. */
  readonly seal: Seal;
  /** Needs `claims` under `permissions.deployment`. */
  readonly claims: Claims;
  /**
   * The other threads of the process, with names that belong to this plugin. Undefined if one thread serves all
   * requests.
   */
  readonly threads: Threads | undefined;
  /** Counts the memory that clients make the plugin hold. */
  readonly memory: Memory;
  /** Small values that the plugin keeps across restarts. */
  readonly storage: PluginStorage;
  /**
   * Returns the service of that name, which must be listed under `uses` in the plugin's manifest. Throws an Error if it
   * is not listed there.
   */
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name];
  /**
   * Returns the service of that name, or undefined if no plugin that provides it is installed. Throws an Error if the
   * manifest does not list it under `usesIfInstalled`.
   */
  use<Name extends ServiceName>(
    name: Name,
    options: { readonly ifInstalled: true },
  ): ServiceTypes[Name] | undefined;
  /**
   * Returns an environment variable, undefined if it is not set. Throws an Error if the manifest does not list it under
   * `permissions.env`.
   */
  variable(name: string): string | undefined;
  /**
   * Returns a client for the server of an http or https URL, with a pool of connections that is closed when the plugin
   * stops. Call it once, in `start`. Throws an Error if the manifest does not list the server under
   * `permissions.hosts`.
   */
  upstream(url: string, options?: UpstreamClientOptions): UpstreamClient;
  /**
   * Runs `task` every `ms` milliseconds until the plugin stops or the result is disposed of. If it throws or rejects, the
   * error is logged and the timer continues. While a promise of the task is pending, no other run of it begins.
   * `signal`: aborts when the plugin has stopped. Can be called from `start` on, but not in `check` or `operation`.
   */
  every(ms: number, task: (signal: AbortSignal) => Awaitable<void>): Disposable;
  /** The version of Sluice, as in its package.json. */
  readonly version: string;
  /** The folder of pipeline.yaml. Relative paths in options are resolved against it. */
  readonly folder: string;
}
