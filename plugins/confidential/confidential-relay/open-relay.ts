/** Opens the service: the state that outlives a reload, and the streams to the networks of this configuration. */
import { UnfinishedBytes } from "sluice-gateway/internal/http";
import type { Host, ServiceContext } from "sluice-gateway/plugin";
import type { Confidential, EvidenceSource } from "sluice-gateway/services";
import { refuseSimulated } from "../evidence/simulated-allowed.ts";
import { createOpenSessions } from "./open-sessions.ts";
import { openOwnEnclaves } from "./own-enclaves.ts";
import { openStreamStore } from "./open-store.ts";
import { createPolicy, policySigner } from "./policy.ts";
import { createQuoteLimit } from "./quote-limit.ts";
import { createConfidential, type SharedStreamState } from "./service.ts";

export async function openRelay(host: Host, { keep }: ServiceContext): Promise<Confidential> {
  const { clock, log, metrics } = host;
  const networks = host.use("networks").open;
  const enclaveWorkers = host.use("enclave-workers");
  const { policies, state } = enclaveWorkers;
  const attestation = host.use("attestation");
  const { counters, evidenceCache } = state;
  const plain = networks.filter(({ config }) => !policies.has(config.name));
  const own = {
    clock,
    log,
    evidenceCache,
    provider: (source: EvidenceSource) => attestation.provider(source),
  };
  const described = networks.map(({ config: { name } }) => ({
    name,
    evidence: policies.get(name),
  }));
  return createConfidential({
    clock,
    log,
    metrics,
    memory: host.memory,
    counters,
    evidenceCache,
    ...keep(
      "state",
      () => openState(host),
      (opened) => opened.close(),
    ),
    networks: networks.map((network) => ({
      name: network.config.name,
      termination: policies.has(network.config.name) ? "worker" : "gateway",
      openStream: (helloBytes, hello) => enclaveWorkers.openStream(network, helloBytes, hello),
    })),
    openOwn({ evidence }) {
      refuseSimulated(evidence, host);
      return openOwnEnclaves(evidence, plain, own);
    },
    policy: createPolicy(described, policySigner(host.seal), clock),
  });
}

type KeptState = Omit<
  SharedStreamState,
  "clock" | "log" | "metrics" | "counters" | "evidenceCache"
>;

function openState(host: Host): KeptState {
  const { clock, metrics } = host;
  return {
    ...openStreamStore(host),
    quoteLimit: createQuoteLimit(clock),
    sessions: createOpenSessions(metrics),
    unfinished: openUnfinished(metrics),
  };
}

function openUnfinished(metrics: Host["metrics"]): UnfinishedBytes {
  const gauge = metrics
    .gauge(
      "sluice_stream_unfinished_bytes",
      "Bytes of memory held by requests of the encrypted stream that this gateway decrypts, until the model answers.",
    )
    .with({});
  return new UnfinishedBytes((bytes) => gauge.set(bytes));
}
