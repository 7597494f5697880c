/** A whole worker: the evidence for its keys, its model server, and its listener. */
import { randomBytes } from "node:crypto";
import type { Log } from "sluice-gateway/plugin";
import type { EvidenceSource, Offer } from "sluice-gateway/services";
import { createMetrics, startAlone } from "sluice-gateway/internal/process";
import { isServed } from "../enclave/handshake.ts";
import { createEnclaveIdentity } from "../enclave/identity.ts";
import { openProvider, type ProviderDeps } from "../evidence/open-provider.ts";
import { readContent } from "../evidence/provider.ts";
import { isFault, type Fault } from "../protocol/fault.ts";
import type { TeeType } from "../verify/evidence.ts";
import { listenForSessions, streamPath } from "./server.ts";

const noOverrides: ReadonlyMap<string, never> = new Map<string, never>();

export interface WorkerOptions extends ProviderDeps {
  readonly network: string;
  readonly models: readonly string[];
  /** Base URL of the model server, with or without a trailing `/v1`. */
  readonly upstream: string;
  readonly apiKey: string | undefined;
  readonly host: string;
  readonly port: number;
  /** URL at which gateways reach the worker, for its status document. Default: the URL on which it listens. */
  readonly advertise: string | undefined;
  /** Price coefficient in thousandths. */
  readonly coefficient: number;
  readonly evidence: EvidenceSource;
  readonly token: string | undefined;
  readonly log: Log;
}

export interface RunningWorker {
  /** `ws://…/cstream/1`. */
  readonly url: string;
  readonly statusUrl: string;
  readonly evidence: TeeType;
  /** Lower-case hex. A gateway's `image_hashes` must list it. */
  readonly imageHash: string;
  /** Ids of the models that the model server listed at the start. Empty if it could not be reached. */
  readonly listedModels: readonly string[];
  /** Test root of simulated evidence: DER in base64. */
  readonly simulatedRoot: string | undefined;
  /** Drains the worker. Running requests have `ms` milliseconds to end. */
  stop(ms: number): Promise<void>;
}

const openMs = 30_000;

/** Returns a fault if there is no evidence. Rejects with the system's error if the worker cannot listen. */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker | Fault> {
  const { network, models, clock, log, coefficient } = options;
  await using stack = new AsyncDisposableStack();
  const provider = await openProvider(options.evidence, options, AbortSignal.timeout(openMs));
  if (isFault(provider)) return provider;
  const identity = createEnclaveIdentity({ net: network, role: "worker", provider, clock, log });
  stack.defer(() => identity.close());
  await identity.ready;
  const keyset = identity.current();
  if (isFault(keyset)) return keyset;
  // The identity has already read this quote, so reading it cannot fail.
  const imageHash = (await readContent(keyset.evidence))?.imageHash ?? "";
  const upstream = await openModelServer(options);
  stack.defer(() => upstream.close());
  const { teeType: evidence } = provider;
  const id = `worker-${randomBytes(6).toString("hex")}`;
  let advertised = options.advertise;
  const { host, port, token } = options;
  const server = await listenForSessions({
    host,
    port,
    token,
    clock,
    log,
    coefficient,
    identity,
    find: (model) => upstream.find(model),
    status: (state) =>
      statusDocument(
        { id, coefficient, url: advertised, evidence, imageHash },
        { ...state, models: models.filter((model) => isServed(upstream.find(model))) },
      ),
  });
  const { authority } = server;
  const address = `ws://${authority}${streamPath}`;
  // A wildcard address cannot be used to connect.
  if (!isWildcard(host)) advertised ??= address;
  const rest = stack.move();
  return {
    url: address,
    statusUrl: `http://${authority}/status`,
    evidence,
    imageHash,
    listedModels: upstream.listed(),
    simulatedRoot: provider.root,
    async stop(ms) {
      await server.stop(ms);
      await rest.disposeAsync();
    },
  };
}

function isWildcard(host: string): boolean {
  return host === "0.0.0.0" || host === "::";
}

interface ModelServer {
  /** Undefined while the server does not list the model. */
  find(modelId: string): Offer | undefined;
  /** Returns the ids of all models that the server lists, including those that may not be used. */
  listed(): readonly string[];
  close(): Promise<void>;
}

/** Resolves when the server has been polled once for its models. */
async function openModelServer(options: WorkerOptions): Promise<ModelServer> {
  const { upstream: url, apiKey, network, models, clock, log } = options;
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

interface WorkerFacts {
  /** Id of this process. The id of each entry adds the model to it. */
  readonly id: string;
  readonly coefficient: number;
  /** URL of the stream. Undefined if readers of the document must get it from another source. */
  readonly url: string | undefined;
  readonly evidence: TeeType;
  readonly imageHash: string;
}

interface WorkerState {
  readonly models: readonly string[];
  readonly answering: ReadonlySet<string>;
  readonly isDraining: boolean;
}

function statusDocument(facts: WorkerFacts, state: WorkerState): object {
  const { id, coefficient, url, evidence, imageHash } = facts;
  const { models, answering, isDraining } = state;
  return {
    workers: models.map((model) => ({
      id: `${id}/${model}`,
      model,
      coefficient,
      state: isDraining ? "draining" : answering.has(model) ? "busy" : "active",
      ...(url !== undefined && { url }),
    })),
    evidence,
    image_hash: imageHash,
  };
}
