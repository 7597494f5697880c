/** The service `host.networks` of one generation: its networks by name, in the order of pipeline.yaml. */
import type { PlainNetwork } from "../../confidential/relay/own-enclaves.ts";
import type { StreamNetwork } from "../../confidential/relay/service.ts";
import type {
  ChangedBy,
  ModelEntry,
  ModelOverride,
  Networks,
  Offer,
} from "../../../src/services/networks.ts";

/** A worker as an operator sees it. */
export interface WorkerStatus {
  readonly id: string;
  readonly listed: { readonly model: string; readonly state: string };
  /** May get requests. */
  readonly isAvailable: boolean;
  /** It failed and is left out for a while. */
  readonly isEjected: boolean;
  readonly inFlight: number;
}

/** One network that is open: what `Network` is, and what stands in for it where nothing is asked. */
export interface OpenNetwork extends StreamNetwork, PlainNetwork {
  readonly name: string;
  /** By id, in a stable order. */
  readonly models: ReadonlyMap<string, Offer & { readonly entry: ModelEntry }>;
  /** What it would list with these overrides, by id, in the place of those that are stored. */
  entriesWith(overrides: ReadonlyMap<string, ModelOverride>): readonly ModelEntry[];
  /** It has said what it has, once at least. */
  readonly hasStatus: boolean;
  /** Whether a worker could be asked now. */
  readonly ready: boolean;
  /** As it lists them now; absent: nothing is known of single workers. */
  readonly workers?: Iterable<WorkerStatus>;
  /** Resolves when workers, prices and rate have been asked for once. */
  readonly settled: Promise<void>;
  /** Running requests go on. */
  close(): Promise<void>;
}

/** Stores what `Networks.override` is given; false: it could not be written. */
export type StoreOverrides = (
  network: string,
  models: readonly ModelOverride[],
  by: ChangedBy,
) => boolean;

export function createNetworks(networks: readonly OpenNetwork[], store: StoreOverrides): Networks {
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
    override(name, models, by) {
      const network = named.get(name);
      if (network === undefined || !store(name, models, by)) return undefined;
      // The caller's transaction may still be open: what is stored is not read again before it ends.
      return network.entriesWith(new Map(models.map((one) => [one.id, one])));
    },
    unread: (name) => among(name).some((network) => !network.hasStatus),
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
