import { randomSampler, chooseBackend, type CandidateSampler } from "sluice-gateway/internal/http";
import {
  createPrice,
  type AnswerReader,
  type CoefficientBands,
  type InferenceCall,
  type InferenceRequest,
  type ModelEntry,
  type ModelOverride,
  type NetworkModel,
  type Price,
  type PromptOptions,
  type TokenPrices,
  type WorkerApi,
} from "sluice-gateway/services";
import type { ServingNetwork } from "./serving-network.ts";
import { NetworkCall } from "./network-call.ts";
import type { Worker } from "./worker.ts";

interface ModelDeps {
  readonly id: string;
  readonly workers: readonly Worker[];
  readonly createdAt: number;
  readonly override: ModelOverride | undefined;
}

/** Created again whenever the workers or overrides of the network change. Prices are looked up when they are needed. */
export class Model implements NetworkModel {
  readonly modelId: string;
  readonly #network: ServingNetwork;
  readonly #deps: ModelDeps;
  readonly #coefficients: CoefficientBands | undefined;
  readonly #sampler: CandidateSampler;

  constructor(network: ServingNetwork, deps: ModelDeps) {
    this.modelId = deps.id;
    this.#network = network;
    this.#deps = deps;
    this.#sampler = randomSampler();
    this.#coefficients = bands(deps.workers.map((worker) => this.#coefficientOf(worker)));
  }

  get network(): string {
    return this.#network.config.name;
  }

  get activeWorkers(): number {
    return this.workers.length;
  }

  get workers(): readonly Worker[] {
    return this.#network.isPriced ? this.#deps.workers : [];
  }

  get maxOutputTokens(): number {
    return this.#network.config.maxOutputTokens;
  }

  get prompt(): PromptOptions {
    return this.#network.config.prompt;
  }

  get speaks(): readonly WorkerApi[] {
    return this.#network.config.speaks;
  }

  get entry(): ModelEntry {
    const { override, createdAt, workers } = this.#deps;
    const coefficients = this.#network.isPriced ? this.#coefficients : undefined;
    // Without a worker there is no coefficient, so the price of the network is shown.
    const price = this.priceAt(coefficients?.standard ?? override?.priceCoefficient ?? 1000);
    const one = { promptTokens: 1, completionTokens: 0 };
    const written = { promptTokens: 0, completionTokens: 1 };
    return {
      network: this.network,
      modelId: this.modelId,
      ownedBy: override?.ownedBy ?? this.#network.config.name,
      createdAt,
      activeWorkers: this.activeWorkers,
      promptPriceCUMilli: price.costMilliCu(one),
      completionPriceCUMilli: price.costMilliCu(written),
      cachedPriceCUMilli: price.costMilliCu({ ...one, cachedTokens: 1 }),
      ...(price.pricing.classes !== undefined && {
        reasoningPriceCUMilli: price.costMilliCu({ ...written, reasoningTokens: 1 }),
      }),
      ...workers[0]?.listed.prices,
      coefficients,
      evidence: workers[0]?.route.evidence ?? "none",
    };
  }

  maxMilliCu(promptTokens: number, completionTokens: number): number {
    const price = this.priceAt(this.#coefficients?.priority ?? 1000);
    return price.maxMilliCu(promptTokens, completionTokens);
  }

  send(request: InferenceRequest, reader: AnswerReader): InferenceCall {
    return new NetworkCall(this.modelId, this.#network, request, reader);
  }

  get usesSessions(): boolean {
    return this.activeWorkers > 1 && this.#network.config.affinity === "session";
  }

  choose(tried: readonly Worker[], session?: string): Worker | undefined {
    const { workers } = this;
    if (session !== undefined && this.usesSessions) {
      const usable = workers.filter((one) => !one.isEjected && !tried.includes(one));
      const worker = this.#network.affinity.choose(`${this.modelId} ${session}`, usable);
      if (worker !== undefined) return worker;
    }
    return chooseBackend(workers, this.#sampler, tried);
  }

  priceOf(worker: Worker): Price {
    return this.priceAt(this.#coefficientOf(worker));
  }

  priceAt(coefficient: number): Price {
    const price = this.#network.priceAt(coefficient);
    const own = this.#deps.override?.prices;
    return own === undefined ? price : withPrices(price, own);
  }

  #coefficientOf(worker: Worker): number {
    return this.#deps.override?.priceCoefficient ?? worker.listed.coefficient;
  }
}

/** `classes` is listed because a single price must not keep the classes of the network. */
function withPrices({ pricing }: Price, { pricePerTokenNano, classes }: TokenPrices): Price {
  return createPrice({ ...pricing, pricePerTokenNano, classes });
}

/** For an even number of workers, the median is the mean of the two in the middle, rounded half up. */
function bands(coefficients: readonly number[]): CoefficientBands | undefined {
  const sorted = coefficients.toSorted((one, other) => one - other);
  const base = sorted[0];
  const low = sorted[(sorted.length - 1) >> 1];
  const high = sorted[sorted.length >> 1];
  const priority = sorted.at(-1);
  if (base === undefined || low === undefined || high === undefined || priority === undefined) {
    return undefined;
  }
  return { base, standard: Math.round((low + high) / 2), priority };
}
