/** The model server behind a worker, by the same client that the gateway has for any OpenAI-compatible server. */
import { createEnclaveRecords } from "../enclave-workers/records.ts";
import { Network } from "../../inference/networks/network.ts";
import { createMetrics } from "../../../src/metrics.ts";
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { Offer } from "../../../src/services/networks.ts";

export interface UpstreamOptions {
  /** Base URL, with or without `/v1` at its end. */
  readonly url: string;
  /** Sent as `Authorization: Bearer …`. */
  readonly apiKey: string | undefined;
  /** For the log. */
  readonly network: string;
  /** Ids of the models that may be asked: no other of the server's is. */
  readonly models: readonly string[];
  readonly clock: Clock;
  readonly log: Log;
}

export interface ModelServer {
  /** Undefined while the server does not list the model. */
  find(modelId: string): Offer | undefined;
  /** Resolves when the server has been asked once for its models. */
  readonly settled: Promise<void>;
  close(): Promise<void>;
}

export function openModelServer(options: UpstreamOptions): ModelServer {
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
      // Whoever pays is reckoned with by the gateway.
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
      enclaves: createEnclaveRecords(),
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
