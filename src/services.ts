/**
 * The services that plugins get through `host`. This file contains only types, so that third parties can use them in
 * the same way as the plugins that ship with Sluice. Each service has a file in src/services/, which names the folder
 * of its implementation.
 */
import type { Clock } from "./contract/clock.ts";
import type { Compute } from "./contract/compute.ts";
import type { Log } from "./contract/log.ts";
import type { Metrics } from "./contract/metrics.ts";
import type { Claims, Seal, Store } from "./contract/store.ts";
import type { Environment } from "./services/accounts.ts";
import type { ServiceName, ServiceTypes } from "./plugin.ts";

/**
 * The object that a plugin instance gets together with its options. There is one instance per distinct set of options,
 * and it may serve many routes.
 */
export interface Host {
  readonly environment: Environment;
  /**
   * `shadow`: the refusals of this instance are counted and logged but not sent. Values that it puts into slots must
   * not refuse, either.
   */
  readonly mode: "enforce" | "shadow";
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** The data folder. */
  readonly store: Store;
  /** Threads for work that would block requests. */
  readonly compute: Compute;
  readonly seal: Seal;
  readonly claims: Claims;
  /**
   * Returns the service of that name, which must be listed under `uses` in the plugin's manifest. Throws an Error if it
   * is not listed there.
   */
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name];
  /** The version of Sluice, as in its package.json. */
  readonly version: string;
  /** The folder of pipeline.yaml. Relative paths in options are resolved against it. */
  readonly folder: string;
}
