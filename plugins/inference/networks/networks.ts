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
  /** True if the worker may get requests. */
  readonly isAvailable: boolean;
  /** True if the worker has failed and is in its cooldown. */
  readonly isEjected: boolean;
  readonly inFlight: number;
}

/** An open network: a `Network`, or the placeholder of a dry run, which sends no requests. */
export interface OpenNetwork extends StreamNetwork, PlainNetwork {
  readonly name: string;
  /** The models by id, in a stable order. */
  readonly models: ReadonlyMap<string, Offer & { readonly entry: ModelEntry }>;
  /** Returns the models that the network would list with these overrides instead of the stored ones, by id. */
  entriesWith(overrides: ReadonlyMap<string, ModelOverride>): readonly ModelEntry[];
  /** True if the status document has been read at least once. */
  readonly hasStatus: boolean;
  /** True if at least one worker can get a request now. */
  readonly ready: boolean;
  /** The workers that the network lists now. Undefined if single workers are not known. */
  readonly workers?: Iterable<WorkerStatus>;
  /** Resolves when workers, prices and rate have been requested once. */
  readonly settled: Promise<void>;
  /** Closes the network. Running requests are completed. */
  close(): Promise<void>;
}

/** Stores the overrides that `Networks.override` was called with. Returns false if they could not be written. */
export type StoreOverrides = (
  network: string,
  models: readonly ModelOverride[],
  by: ChangedBy,
) => boolean;

export function createNetworks(networks: readonly OpenNetwork[], store: StoreOverrides): Networks {
  const byName = new Map(networks.map((network) => [network.name, network]));
  const matching = (name: string | undefined): readonly OpenNetwork[] => {
    if (name === undefined) return networks;
    const network = byName.get(name);
    return network === undefined ? [] : [network];
  };
  return {
    names: [...byName.keys()],
    models(name) {
      const entries: ModelEntry[] = [];
      for (const network of matching(name)) {
        for (const model of network.models.values()) entries.push(model.entry);
      }
      return entries;
    },
    override(name, models, by) {
      const network = byName.get(name);
      if (network === undefined || !store(name, models, by)) return undefined;
      // The caller's transaction may still be open, so the stored overrides cannot be read yet.
      return network.entriesWith(new Map(models.map((one) => [one.id, one])));
    },
    unread: (name) => matching(name).some((network) => !network.hasStatus),
    find(modelId, name) {
      let listed: Offer | undefined;
      for (const network of matching(name)) {
        const model = network.models.get(modelId);
        if (model !== undefined && model.activeWorkers > 0) return model;
        listed ??= model;
      }
      return listed;
    },
  };
}
