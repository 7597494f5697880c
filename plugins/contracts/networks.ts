/** The service `networks`: the inference networks and their workers. Implemented in plugins/inference/networks. */
import type { ModelEntry, ModelOverride, Offer } from "./inference.ts";
import type { NetworkKind, OpenNetwork } from "./network-kinds.ts";
import type { ChangedBy } from "./principal.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    networks: Networks;
  }
}

export interface Networks {
  /** Names in the order of pipeline.yaml. */
  readonly names: readonly string[];
  /** Returns models in a stable order. Empty for a network that is not configured. */
  models(network?: string): readonly ModelEntry[];
  /**
   * Replaces all overrides of a network with `models`, which must have distinct ids. Returns the models that the
   * network then lists. Undefined if the overrides could not be written or the network does not exist; nothing has
   * changed in that case. The change is durable when the method has returned, or the surrounding transaction has
   * committed. Every gateway on the same store applies it within 1 s.
   */
  override(
    network: string,
    models: readonly ModelOverride[],
    by: ChangedBy,
  ): Promise<readonly ModelEntry[] | undefined>;
  /**
   * Returns true while the models of this network, or of any network if it is not given, are unknown because its
   * status document has never been read.
   */
  unread(network?: string): boolean;
  /**
   * Returns the offer of this network, or if it is not given, that of the first network of pipeline.yaml with an active
   * worker for the model, else of the first that lists the model. Undefined if none lists it.
   */
  find(modelId: string, network?: string): Offer | undefined;
  /** The networks that are open, in the order of pipeline.yaml. */
  readonly open: readonly OpenNetwork[];
  /**
   * Opens the networks of this kind. A service calls it when it starts, so that they are open before any other plugin
   * asks for them.
   */
  addKind(name: string, kind: NetworkKind): void;
}
