/**
 * The services that plugins reach through `host`: types only, so that a third party can build on them as we do. Each
 * has its own file in src/services/, which says where it is implemented.
 */
import type { Accounts, Environment } from "./services/accounts.ts";
import type { Clock } from "./services/clock.ts";
import type { Confidential } from "./services/confidential.ts";
import type { Decoder } from "./services/decoder.ts";
import type { Evidence, EvidenceSource } from "./services/evidence.ts";
import type { Idempotency } from "./services/idempotency.ts";
import type { JsonRpcBody } from "./services/json.ts";
import type { Ledger } from "./services/ledger.ts";
import type { Log } from "./services/log.ts";
import type { Meter } from "./services/meter.ts";
import type { Metrics } from "./services/metrics.ts";
import type { Networks } from "./services/networks.ts";
import type { DocumentedRoute } from "./services/routes.ts";
import type { Claims, Seal } from "./services/store.ts";
import type { Tickets } from "./services/tickets.ts";
import type { ForwardOptions, Forwarder, Upstream } from "./services/upstream.ts";
import type { Workspaces } from "./services/workspaces.ts";
import type { ServiceName, ServiceTypes } from "./plugin.ts";
import type { Tools } from "./tool.ts";

/** What a plugin instance gets beside its options. One instance per distinct options; it may serve many routes. */
export interface Host {
  readonly environment: Environment;
  /** `shadow`: what this instance refuses is counted and logged, never sent. Services it hands out must not refuse. */
  readonly mode: "enforce" | "shadow";
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly accounts: Accounts;
  readonly workspaces: Workspaces;
  readonly idempotency: Idempotency;
  readonly meter: Meter;
  /** The catalogue of this generation. While a `tools` plugin starts it is not complete yet. */
  readonly tools: Tools;
  /** What every route of this generation says of itself. While plugins start it is not complete yet. */
  readonly routes: readonly DocumentedRoute[];
  readonly seal: Seal;
  readonly claims: Claims;
  /** The inference networks; empty where none is configured. */
  readonly networks: Networks;
  /** The encrypted stream to them. */
  readonly confidential: Confidential;
  readonly tickets: Tickets;
  /**
   * Who attests what this deployment runs on, one for each source and process. Throws for one that must not be used
   * here (a simulation in prod), which keeps the plugin from starting; whether there is a platform shows when it is
   * asked.
   */
  evidence(source: EvidenceSource): Evidence;
  /**
   * Returns the service of that name, which must be listed under `uses` in the plugin's manifest. Throws an Error if it
   * is not listed there.
   */
  use<Name extends ServiceName>(name: Name): ServiceTypes[Name];
  /** Sluice's own version, as in its package.json. */
  readonly version: string;
  /** Reads a JSON-RPC 2.0 body strictly, a call or a batch of at most `maxItems`, and makes values of nothing in it. */
  readJsonRpc(body: Buffer, maxItems: number): JsonRpcBody;
  /** The Substrate node pool named in `upstreams`; undefined when there is none of that name. */
  ledger(upstream: string): Ledger | undefined;
  /**
   * Reads blocks, events and accounts of the node pool named in `upstreams`; undefined when there is none of that name.
   */
  decoder(upstream: string): Decoder | undefined;
  /** A streamed way to the upstream of that name; undefined when there is none. Its connections are shared. */
  forwarder(upstream: string, options?: ForwardOptions): Forwarder | undefined;
  /** Any upstream of pipeline.yaml by name. */
  upstream(name: string): Upstream | undefined;
  /** The folder of pipeline.yaml: relative paths in options start there. */
  readonly folder: string;
}
