import type { Host, ServiceContext } from "sluice-gateway/plugin";
import { createClientMemory } from "../client/client.ts";
import { readCatalogue } from "./catalogue.ts";
import { sealedConfigs, type Options } from "./options.ts";
import { SealedRoute } from "./route.ts";
import type { RequestRecord, SealedDeps } from "./sealed-sessions.ts";
import type { Verification } from "./verification.ts";

/** Time that `verify` waits for the list of models. */
const listMs = 8_000;
const maxRequests = 50;

export interface SealedNetworks {
  verifications(): readonly Verification[];
  /** The last requests, the newest first. */
  requests(): readonly RequestRecord[];
  /** Why the list of models could not be read the last time. Undefined if it was read. */
  readonly listFault: string | undefined;
  /** Verifies the enclave of a model now. Default: the first model. Undefined if no gateway lists it with evidence. */
  verify(model?: string): Promise<Verification | undefined>;
}

export function openSealedNetworks(
  options: Options,
  host: Host,
  { keep }: ServiceContext,
): SealedNetworks {
  const { clock, log } = host;
  const configs = sealedConfigs(options);
  const { memory, requests, routes } = keep(
    "state",
    () => ({
      memory: createClientMemory(),
      requests: [] as RequestRecord[],
      routes: new Map<string, SealedRoute>(),
    }),
    () => undefined,
  );
  const record = (request: RequestRecord): void => {
    const { gateway, rate } = request;
    const before = requests.find(
      (one) => one.gateway === gateway && one.model === request.model && one.rate !== undefined,
    )?.rate;
    if (rate !== undefined && before !== undefined && rate !== before) {
      log.warn({ model: request.model, before, now: rate }, "the rate of a bill has changed");
    }
    requests.unshift(request);
    requests.length = Math.min(requests.length, maxRequests);
    const { model, failedCheck } = request;
    if (failedCheck !== undefined) log.warn({ model, failedCheck }, "an answer is refused");
  };
  let listFault: string | undefined;
  const hasList = Promise.withResolvers<void>();
  host.use("networks").addKind("sealed", {
    workerProtocols: [],
    statusUrl: ({ url }) => `${url.replace(/^ws/, "http").replace(/\/+$/, "")}/v1/models`,
    statusFailed(_config, reason) {
      listFault = reason;
      hasList.resolve();
    },
    readStatus({ name }, document) {
      listFault = undefined;
      // The network has its routes at the end of this turn.
      queueMicrotask(hasList.resolve);
      return readCatalogue(document, configs.get(name)?.stream.network);
    },
    open(config) {
      const sealed = configs.get(config.name);
      // Both services read the same section, so every network of this kind has an entry.
      if (sealed === undefined) throw new TypeError(`${config.name} is not a sealed network`);
      return {
        routeTo(listed) {
          const key = JSON.stringify([config.name, listed.model]);
          const closed: SealedDeps["closed"] = (one) => {
            // After a reload, another route serves the model.
            if (routes.get(key) === one) routes.delete(key);
          };
          const deps = { clock, log, memory, record, closed };
          const route = new SealedRoute(config, sealed, listed, deps);
          routes.set(key, route);
          return route;
        },
        close: () => Promise.resolve(),
      };
    },
  });
  return {
    verifications: () => [...routes.values()].flatMap(({ verification }) => verification ?? []),
    requests: () => requests,
    get listFault() {
      return listFault;
    },
    async verify(model) {
      using _limit = clock.after(listMs, hasList.resolve);
      await hasList.promise;
      const route = routes.values().find((each) => model === undefined || each.model === model);
      await route?.check();
      return route?.verification;
    },
  };
}
