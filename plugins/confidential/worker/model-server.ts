/** The model server of a worker. The service `networks` is its client: the worker is a network with one server. */
import type { Clock, Log } from "sluice-gateway/plugin";
import { createMetrics, startAlone } from "sluice-gateway/internal/process";
import type { Offer } from "sluice-gateway/services";

export interface ModelServerOptions {
  /** Base URL, with or without a trailing `/v1`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer …`. */
  readonly apiKey: string | undefined;
  /** Name of the network, for the log. */
  readonly network: string;
  /** Ids of the models that may be used. Other models of the server are ignored. */
  readonly models: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

export interface ModelServer {
  /** Returns the model. Undefined while the server does not list it. */
  find(modelId: string): Offer | undefined;
  /** Returns the ids of the models that the server lists, including those that may not be used. */
  listed(): readonly string[];
  close(): Promise<void>;
}

/** Resolves when the server has been polled once for its models. */
export async function openModelServer(options: ModelServerOptions): Promise<ModelServer> {
  const { url, apiKey, network, models, clock, log } = options;
  const headers = apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` };
  // A long prompt may take the model minutes before its first token. The gateway charges the requests, not the worker.
  const entry = { kind: "openai", url, headers, idleMs: 300_000, price_per_token_nano: "0" };
  const networks = await startAlone(
    "networks",
    { networks: { [network]: entry } },
    { clock, log, metrics: createMetrics() },
    { accounts: { overrides: () => noOverrides, replaceOverrides: () => Promise.resolve(false) } },
  );
  const served = new Set(models);
  return {
    find: (modelId) => (served.has(modelId) ? networks.service.find(modelId) : undefined),
    listed: () => networks.service.models().map(({ modelId }) => modelId),
    close: () => networks.stop(),
  };
}

const noOverrides: ReadonlyMap<string, never> = new Map<string, never>();
