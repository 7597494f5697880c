/**
 * Polls the workers and prices of one network and derives the catalogue of models from them. The values of the last
 * reading are used until the next one.
 */
import { failureCounter } from "sluice-gateway/internal/http";
import type { Log, Metrics } from "sluice-gateway/plugin";
import {
  createPrice,
  type ListedWorker,
  type ModelEntry,
  type ModelOverride,
  type NetworkConfig,
  type NetworkKind,
  type NetworkStatus,
  type Price,
  type TokenPrices,
  type Transport,
} from "sluice-gateway/services";
import { Affinity } from "./affinity.ts";
import { CallMetrics } from "./call-metrics.ts";
import { PolledDocument, type DocumentOptions } from "./polled-document.ts";
import { Model } from "./model.ts";
import { baseOf, OpenaiTransport } from "./openai-transport.ts";
import { openTokenRate, type TokenRate } from "./token-rate.ts";
import { readModels, readStatus, statusProblem } from "./status-document.ts";
import type { NetworkDeps, ServingNetwork } from "./serving-network.ts";
import { Worker } from "./worker.ts";
import { WorkerLoads } from "./worker-load.ts";

export class Network implements ServingNetwork {
  readonly config: NetworkConfig;
  readonly deps: NetworkDeps;
  readonly settled: Promise<void>;
  readonly unpriced: ServingNetwork["unpriced"];
  readonly callMetrics: CallMetrics;
  readonly countFailure: ServingNetwork["countFailure"];
  readonly affinity: Affinity;
  readonly #status: PolledDocument<NetworkStatus>;
  readonly #rate: TokenRate;
  readonly #origins: AllowedOrigins;
  readonly #transport: Transport;
  readonly #loads: WorkerLoads;
  #workers = new Map<string, Worker>();
  #models = new Map<string, Model>();
  #overrides: ReadonlyMap<string, ModelOverride> = new Map();
  hasStatus = false;
  #tokenPrices: TokenPrices | undefined;
  #readAt: number;
  readonly #firstListed = new Map<string, number>();
  #prices = new Map<number, Price>();
  #pricedRate: string | undefined;

  constructor(config: NetworkConfig, deps: NetworkDeps) {
    const { clock, log, metrics, storage, threads } = deps;
    this.config = config;
    this.deps = deps;
    this.#readAt = clock.now();
    this.unpriced = unpricedCounters(config.name, metrics);
    this.callMetrics = new CallMetrics(config.name, deps);
    this.countFailure = failureCounter(config.name, metrics);
    this.affinity = new Affinity(clock, threads, config.name);
    this.#loads = new WorkerLoads(threads, config.name);
    const { kind } = deps;
    this.#transport =
      kind === undefined
        ? new OpenaiTransport(config, deps)
        : kind.open(config, () => this.#list());
    this.#origins = new AllowedOrigins(config, log);
    const shared = { name: config.name, clock, log, metrics };
    this.#rate = openTokenRate(config.rate, { ...shared, storage });
    this.#status = new PolledDocument<NetworkStatus>({
      ...shared,
      name: `${config.name} status`,
      ...statusSource(config, kind),
      everyMs: config.statusMs,
      changed: (status) => this.#onStatus(status),
      failed: (reason) => kind?.statusFailed?.(config, reason),
    });
    this.settled = this.#readAll();
  }

  get name(): string {
    return this.config.name;
  }

  get models(): ReadonlyMap<string, Model> {
    const overrides = this.deps.overrides(this.config.name);
    if (overrides !== this.#overrides) {
      this.#overrides = overrides;
      this.#list();
    }
    return this.#models;
  }

  entriesWith(overrides: ReadonlyMap<string, ModelOverride>): readonly ModelEntry[] {
    return Array.from(this.#modelsWith(overrides).values(), (model) => model.entry);
  }

  get workers(): Iterable<Worker> {
    return this.#workers.values();
  }

  get isPriced(): boolean {
    return this.#rate.isKnown;
  }

  get ready(): boolean {
    return this.isPriced && this.#workers.values().some((one) => one.isAvailable && !one.isEjected);
  }

  priceAt(coefficient: number): Price {
    if (this.#rate.usd !== this.#pricedRate) {
      this.#pricedRate = this.#rate.usd;
      this.#prices.clear();
    }
    const known = this.#prices.get(coefficient);
    if (known !== undefined) return known;
    const price = createPrice({
      network: this.config.name,
      coefficient,
      ...(this.#tokenPrices ?? this.config.prices),
      tokenUsdRate: this.#rate.usd,
      asOf: new Date(this.#readAt).toISOString(),
    });
    this.#prices.set(coefficient, price);
    return price;
  }

  async #readAll(): Promise<void> {
    await this.#status.firstReading;
    await Promise.all(this.#workers.values().map(({ route }) => route.settled));
    await this.#rate.firstReading;
  }

  async close(): Promise<void> {
    this.#status.close();
    this.#rate.close();
    this.#loads[Symbol.dispose]();
    this.affinity[Symbol.dispose]();
    for (const worker of this.#workers.values()) worker.close();
    await this.#transport.close();
  }

  #onStatus(status: NetworkStatus): void {
    const hadWorkers = !this.hasStatus || this.#workers.size > 0;
    this.hasStatus = true;
    this.#tokenPrices = status.prices ?? this.#tokenPrices;
    this.#readAt = this.deps.clock.now();
    this.#prices.clear();
    const workers = new Map<string, Worker>();
    for (const listed of this.#origins.filter(status.workers))
      workers.set(listed.id, this.#worker(listed));
    for (const [id, worker] of this.#workers) if (workers.get(id) !== worker) worker.close();
    this.#workers = workers;
    if (hadWorkers && workers.size === 0) {
      const network = this.config.name;
      this.deps.log.warn({ network }, "the network lists no usable worker, so it has no models");
    }
    this.#list();
  }

  /** A known worker keeps its health, unless its address has changed. */
  #worker(listed: ListedWorker): Worker {
    const known = this.#workers.get(listed.id);
    if (known !== undefined && known.listed.url === listed.url) {
      known.listed = listed;
      known.route.listedAgain();
      return known;
    }
    const { clock } = this.deps;
    const route = this.#transport.routeTo(listed);
    return new Worker(listed, route, {
      load: this.#loads.of(listed.id),
      clock,
      onEjectionChange: (worker) => this.#onEjectionChange(worker),
    });
  }

  #list(): void {
    this.#models = this.#modelsWith(this.#overrides);
    for (const id of this.#firstListed.keys()) {
      if (!this.#models.has(id)) this.#firstListed.delete(id);
    }
  }

  #modelsWith(overrides: ReadonlyMap<string, ModelOverride>): Map<string, Model> {
    const listed = new Map<string, Worker[]>();
    for (const worker of this.#workers.values()) {
      const workers = listed.get(worker.listed.model) ?? [];
      if (worker.isAvailable) workers.push(worker);
      listed.set(worker.listed.model, workers);
    }
    for (const { id, enabled } of overrides.values()) {
      if (!enabled) listed.delete(id);
      else if (!listed.has(id)) listed.set(id, []);
    }
    const now = this.deps.clock.now();
    const models = [...listed].toSorted(([one], [other]) => (one < other ? -1 : 1));
    return new Map(
      models.map(([id, workers]) => {
        const createdAt = this.#firstListed.get(id) ?? now;
        this.#firstListed.set(id, createdAt);
        return [id, new Model(this, { id, workers, createdAt, override: overrides.get(id) })];
      }),
    );
  }

  #onEjectionChange(worker: Worker): void {
    const { log } = this.deps;
    const about = { network: this.config.name, worker: worker.id };
    const { cause } = worker.ejection;
    if (cause !== undefined) {
      log.warn({ ...about, failure: cause }, "a worker was ejected after failures");
    } else log.info(about, "a worker is available again");
  }
}

function unpricedCounters(network: string, metrics: Metrics): ServingNetwork["unpriced"] {
  const family = metrics.counter(
    "sluice_inference_unpriced_total",
    "Answers that were charged 0 because the price or the rate was missing.",
    ["network", "missing"],
  );
  return {
    price: family.with({ network, missing: "price" }),
    rate: family.with({ network, missing: "rate" }),
  };
}

function statusSource(
  config: NetworkConfig,
  kind: NetworkKind | undefined,
): Pick<DocumentOptions<NetworkStatus>, "url" | "headers" | "read" | "problemOf"> {
  const { url, statusUrl, headers } = config;
  const read = (value: unknown): NetworkStatus | undefined =>
    readStatus(value, kind?.workerProtocols);
  const problemOf = statusProblem;
  if (statusUrl !== undefined) return { url: statusUrl, read, problemOf };
  const own = kind?.statusUrl?.(config);
  if (own !== undefined) {
    const readOwn = kind?.readStatus?.bind(kind, config);
    return {
      url: own,
      headers,
      ...(readOwn === undefined ? { read, problemOf } : { read: readOwn }),
    };
  }
  return { url: `${baseOf(url)}/v1/models`, headers, read: readModels };
}

/** Maximum number of lines about refused origins for one status document. */
const maxOriginLines = 10;

/**
 * The origins that requests of a network may be sent to: those of its `url` and `origins`. A status document contains
 * the addresses of workers, but it alone must not decide where prompts and the credentials of the network are sent.
 */
class AllowedOrigins {
  readonly #network: string;
  readonly #allowed: ReadonlySet<string>;
  readonly #log: Log;
  /** Origins that were refused at the last reading. Each is logged once while it stays in the document. */
  #refused: ReadonlySet<string> = new Set();

  constructor({ name, url, origins }: NetworkConfig, log: Log) {
    this.#network = name;
    this.#allowed = new Set([url, ...origins].map(originOf));
    this.#log = log;
  }

  filter(workers: readonly ListedWorker[]): readonly ListedWorker[] {
    const refused = new Set<string>();
    const allowed = workers.filter(({ url }) => {
      const origin = url === undefined ? undefined : originOf(url);
      if (origin === undefined || this.#allowed.has(origin)) return true;
      refused.add(origin);
      return false;
    });
    const newlyRefused = [...refused].filter((origin) => !this.#refused.has(origin));
    for (const origin of newlyRefused.slice(0, maxOriginLines)) {
      this.#log.warn(
        { network: this.#network, origin },
        `workers at ${origin} are skipped: add it to networks.${this.#network}.origins in pipeline.yaml if it is yours`,
      );
    }
    this.#refused = refused;
    return allowed;
  }
}

/** A WebSocket has the origin of the HTTP request that opens it. */
function originOf(url: string): string {
  const { protocol, host } = new URL(url);
  return `${protocol.replace("ws", "http")}//${host}`;
}
