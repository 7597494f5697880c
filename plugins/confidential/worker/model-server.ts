/** The model server of a worker. Uses the gateway's client for OpenAI-compatible servers. */
import { createEnclaveState } from "../enclave-workers/enclave-state.ts";
import { Network } from "../../inference/networks/network.ts";
import { createMetrics } from "../../../src/metrics.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { Offer } from "../../../src/services/networks.ts";

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
  /** Resolves when the server has been polled once for its models. */
  readonly settled: Promise<void>;
  close(): Promise<void>;
}

export function openModelServer(options: ModelServerOptions): ModelServer {
  const { url, apiKey, network: name, models, clock, log } = options;
  const network = new Network(
    {
      name,
      kind: "openai",
      url,
      origins: [],
      evidence: undefined,
      statusUrl: undefined,
      statusMs: 10_000,
      // The gateway charges the requests, not the worker.
      pricePerTokenNano: "0",
      rate: undefined,
      headers: apiKey === undefined ? {} : { Authorization: `Bearer ${apiKey}` },
      connectMs: 2_000,
      // A long prompt may take the model minutes before its first token.
      idleMs: 300_000,
      answerMs: 600_000,
      maxOutputTokens: 8_192,
    },
    {
      clock,
      log,
      metrics: createMetrics(),
      overrides: () => noOverrides,
      enclaves: createEnclaveState(),
    },
  );
  const served = new Set(models);
  return {
    find: (modelId) => (served.has(modelId) ? network.models.get(modelId) : undefined),
    settled: network.settled,
    close: () => network.close(),
  };
}

const noOverrides: ReadonlyMap<string, never> = new Map<string, never>();
