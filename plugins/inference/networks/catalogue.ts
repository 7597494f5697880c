import type {
  ChangedBy,
  ModelEntry,
  ModelOverride,
  Networks,
  Offer,
  OpenNetwork,
} from "sluice-gateway/services";

interface CatalogueNetwork extends OpenNetwork {
  readonly name: string;
  /** Returns the models that the network would list with these overrides instead of the stored ones. */
  entriesWith(overrides: ReadonlyMap<string, ModelOverride>): readonly ModelEntry[];
  readonly hasStatus: boolean;
}

export interface CatalogueDeps<Open extends CatalogueNetwork = CatalogueNetwork> {
  list: readonly Open[];
  /** Returns false if the overrides could not be written. */
  store(network: string, models: readonly ModelOverride[], by: ChangedBy): Promise<boolean>;
}

/** `deps.list` is read at each call, because networks of other kinds are opened later. */
export function createCatalogue(deps: CatalogueDeps): Omit<Networks, "addKind"> {
  const matching = (name: string | undefined): readonly CatalogueNetwork[] =>
    name === undefined ? deps.list : deps.list.filter((network) => network.name === name);
  return {
    get names() {
      return deps.list.map((network) => network.name);
    },
    get open() {
      return deps.list;
    },
    models(name) {
      const entries: ModelEntry[] = [];
      for (const network of matching(name)) {
        for (const model of network.models.values()) entries.push(model.entry);
      }
      return entries;
    },
    async override(name, models, by) {
      const [network] = matching(name);
      if (network === undefined || !(await deps.store(name, models, by))) return undefined;
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
