/** The service `host.networks` of one generation: its networks by name, in the order of pipeline.yaml. */
import type { ModelEntry, Networks, Offer } from "../services/networks.ts";

/** One network that is open: what `Network` is, and what stands in for it where nothing is asked. */
export interface OpenNetwork {
  readonly name: string;
  /** By id, in a stable order. */
  readonly models: ReadonlyMap<string, Offer & { readonly entry: ModelEntry }>;
  /** It has said what it has, once at least. */
  readonly read: boolean;
  /** Whether a worker could be asked now. */
  readonly ready: boolean;
  /** Resolves when workers, prices and rate have been asked for once. */
  readonly settled: Promise<void>;
  /** Running requests go on. */
  close(): Promise<void>;
}

/** `override`: stores what `Networks.override` is given. */
export function createNetworks(
  networks: readonly OpenNetwork[],
  override: Networks["override"],
): Networks {
  const named = new Map(networks.map((network) => [network.name, network]));
  const among = (name: string | undefined): readonly OpenNetwork[] => {
    if (name === undefined) return networks;
    const network = named.get(name);
    return network === undefined ? [] : [network];
  };
  return {
    names: [...named.keys()],
    models(name) {
      const entries: ModelEntry[] = [];
      for (const network of among(name)) {
        for (const model of network.models.values()) entries.push(model.entry);
      }
      return entries;
    },
    override,
    unread: (name) => among(name).some((network) => !network.read),
    find(modelId, name) {
      let listed: Offer | undefined;
      for (const network of among(name)) {
        const model = network.models.get(modelId);
        if (model !== undefined && model.activeWorkers > 0) return model;
        listed ??= model;
      }
      return listed;
    },
  };
}
