/** The service `host.networks`: what the inference networks offer. Empty until a network is served. */

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
