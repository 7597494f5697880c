/** A whole worker: the evidence for its keys, its model server, and its listener. */
import { randomBytes } from "node:crypto";
import type { Log } from "sluice-gateway/plugin";
import type { EvidenceSource } from "sluice-gateway/services";
import { createEnclaveIdentity } from "../enclave/identity.ts";
import { openProvider, type ProviderDeps } from "../evidence/open-provider.ts";
import { readContent } from "../evidence/provider.ts";
import { isFault, type Fault } from "../protocol/fault.ts";
import type { TeeType } from "../verify/evidence.ts";
import { listenForSessions, streamPath } from "./server.ts";
import { statusDocument } from "./status.ts";
import { openModelServer } from "./model-server.ts";

export interface WorkerOptions extends ProviderDeps {
  readonly network: string;
  /** Ids of the models, at least one. */
  readonly models: readonly string[];
  /** URL of the model server. */
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

/** Starts a worker. Returns a fault if there is no evidence. Rejects with the system's error if it cannot listen. */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker | Fault> {
  const { network, models, clock, log, coefficient, upstream: url } = options;
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
  const { apiKey } = options;
  const upstream = await openModelServer({ url, apiKey, network, models, clock, log });
  stack.defer(() => upstream.close());
  const { teeType: evidence } = provider;
  const id = `worker-${randomBytes(6).toString("hex")}`;
  const isServed = (model: string): boolean => (upstream.find(model)?.activeWorkers ?? 0) > 0;
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
        { ...state, models: models.filter(isServed) },
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
