import { causeOf } from "sluice-gateway/internal/http";
import type { BackendStatus, Host, ServiceContext, ServiceHooks } from "sluice-gateway/plugin";
import type {
  Accounts,
  ModelEntry,
  NetworkConfig,
  NetworkKind,
  Networks,
  Offer,
} from "sluice-gateway/services";
import { pointerKey } from "sluice-gateway/internal/toolkit";
import { Network } from "./network.ts";
import { networkConfigs, type Options } from "./options.ts";
import type { Worker } from "./worker.ts";

const noOverrides: ReadonlyMap<string, never> = new Map<string, never>();

/** Networks with OpenAI's API are opened at once, those of other kinds when the kind is added. */
export function openNetworks(
  options: Options,
  host: Host,
  { keep, isDefault }: ServiceContext,
): ServiceHooks<Networks> {
  const { clock, log, metrics, threads } = host;
  // Read only for a rate that is polled, because the host of a worker has no storage.
  const storage = (): Host["storage"] => host.storage;
  const accounts = host.use("accounts", { ifInstalled: true });
  const overrides = (network: string) => accounts?.overrides(network) ?? noOverrides;
  const configs = networkConfigs(options);
  const opened = new Map<string, Network>();
  // Replaced when networks of another kind are opened.
  let list: readonly Network[] = [];
  const openOne = (config: NetworkConfig, kind: NetworkKind | undefined): Network => {
    // The entry also contains the members of other services.
    const key = JSON.stringify([config.name, options.networks[config.name], config.rate]);
    const deps = { clock, log, metrics, storage, threads, overrides, kind };
    return keep(
      key,
      () => new Network(config, deps),
      (network) => network.close(),
    );
  };
  const addKind = (name: string, kind?: NetworkKind): void => {
    for (const config of configs) {
      if (config.kind === name) opened.set(config.name, openOne(config, kind));
    }
    list = configs.flatMap((config) => opened.get(config.name) ?? []);
  };
  addKind("openai");
  return {
    service: Object.assign(
      catalogueOf(() => list, accounts),
      { addKind },
    ),
    async initialized() {
      await Promise.all(list.map(({ settled }) => settled));
    },
    backends: () =>
      list.map((network) =>
        statusOf(network, isDefault(`/networks/${pointerKey(network.name)}/url`)),
      ),
  };
}

/** `listed` is called for each use, because networks of other kinds are opened later. */
function catalogueOf(
  listed: () => readonly Network[],
  accounts: Accounts | undefined,
): Omit<Networks, "addKind"> {
  const matching = (name: string | undefined): readonly Network[] =>
    name === undefined ? listed() : listed().filter((network) => network.name === name);
  return {
    get names() {
      return listed().map((network) => network.name);
    },
    get open() {
      return listed();
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
      const isStored = network && (await accounts?.replaceOverrides(name, models, by));
      if (network === undefined || isStored !== true) return undefined;
      // The caller's transaction may still be open, so the stored overrides cannot be read yet.
      return network.entriesWith(new Map(models.map((one) => [one.id, one])));
    },
    unread: (name) => matching(name).some((network) => !network.hasStatus),
    find(modelId, name) {
      let unavailable: Offer | undefined;
      for (const network of matching(name)) {
        const model = network.models.get(modelId);
        if (model !== undefined && model.activeWorkers > 0) return model;
        unavailable ??= model;
      }
      return unavailable;
    },
  };
}

function statusOf(network: Network, isDefault: boolean): BackendStatus {
  const { name, ready, isPriced } = network;
  return {
    kind: "network",
    title: `network ${name}`,
    ready: ready ? true : isPriced ? "no usable worker" : "its rate is unknown, or too old",
    cause: whyNotReady(network),
    isDefault,
    // A network can have thousands of workers, and /readyz does not show them.
    get details() {
      const workers = Array.from(network.workers, (worker) => ({
        name: worker.id,
        model: worker.listed.model,
        state: stateOf(worker),
        in_flight: worker.inFlight,
        ...worker.ejection.absence,
      }));
      return { name, ready, models: network.models.size, workers };
    },
  };
}

/** Returns only the cause, because everyone may read `/readyz`. The details have the rest. */
function whyNotReady(network: Network): string {
  if (!network.isPriced) return "no answer with a valid rate was read within its maxAge";
  const out = [...network.workers].find((worker) => worker.isEjected)?.ejection.cause;
  if (out !== undefined) return causeOf(out);
  return network.hasStatus ? "no listed worker is usable" : "no status was read";
}

function stateOf({ isEjected, isAvailable, listed }: Worker): string {
  if (isEjected) return "left out";
  return isAvailable || listed.state === "draining" ? listed.state : "not admitted";
}
