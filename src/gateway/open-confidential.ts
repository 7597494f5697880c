/** Opens what the encrypted stream needs, and puts the service `host.confidential` together for each generation. */
import { openComputePool } from "../compute/pool.ts";
import {
  collateralFile,
  collateralService,
  type CollateralSource,
} from "../../plugins/confidential/evidence/collateral.ts";
import {
  createEvidenceService,
  type EvidenceService,
} from "../../plugins/confidential/evidence/evidence-service.ts";
import { revocationListService } from "../../plugins/confidential/evidence/revocation-list.ts";
import { createOpenSessions } from "../../plugins/confidential/relay/open-sessions.ts";
import { openOwnEnclaves } from "../../plugins/confidential/relay/own-enclaves.ts";
import { createPolicy, policySigner } from "../../plugins/confidential/relay/policy.ts";
import { createQuoteLimit } from "../../plugins/confidential/relay/quote-limit.ts";
import { Receipts } from "../../plugins/confidential/relay/receipts.ts";
import { RetryCredits } from "../../plugins/confidential/relay/retry-credits.ts";
import {
  createConfidential,
  type SharedStreamState,
} from "../../plugins/confidential/relay/service.ts";
import { createSessionIds } from "../../plugins/confidential/relay/session-ids.ts";
import { UnfinishedBytes } from "../http/unfinished-bytes.ts";
import type { Config } from "../config/config.ts";
import { createEnclaveState } from "../../plugins/confidential/enclave-workers/enclave-state.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import type { Services } from "../pipeline/load/services.ts";
import type { Clock, Log, Metrics } from "../plugin.ts";
import type { EvidenceSource } from "../services/evidence.ts";

interface Opened {
  /** Who attests this process. */
  readonly evidence: EvidenceService;
  /** What is known of workers' enclaves, for the networks. */
  readonly enclaves: ReturnType<typeof createEnclaveState>;
  readonly openConfidential: Services["openConfidential"];
}

/** `secret`: the deployment's, of which the policy's key is made. */
export function openConfidentialServices(
  config: Config,
  shared: {
    readonly clock: Clock;
    readonly log: Log;
    readonly metrics: Metrics;
    readonly secret: string;
  },
  stack: ClosingStack,
): Opened {
  const { clock, log, metrics, secret } = shared;
  const { simulatedAllowed, store } = config;
  const collateral = collateralOf(config, clock);
  const { kds } = config.collateral;
  const revocationLists = kds === undefined ? undefined : revocationListService(kds, clock);
  const evidence = createEvidenceService({
    clock,
    log,
    simulatedAllowed,
    collateral,
    revocationLists,
  });
  const pool = openComputePool({ clock, metrics, threads: 1 });
  stack.add("threads of receipts", () => pool.close());
  const receipts = new Receipts(store.data, clock, pool);
  stack.add("receipts", () => receipts.close());
  const enclaves = createEnclaveState();
  const openConfidential = confidentialOpener({
    clock,
    log,
    metrics,
    ...enclaves,
    receipts,
    retryCredits: new RetryCredits(clock, metrics),
    quoteLimit: createQuoteLimit(clock),
    sessionIds: createSessionIds(receipts),
    sessions: createOpenSessions(metrics),
    unfinished: openUnfinished(metrics),
    evidence,
    secret,
  });
  return { evidence, enclaves, openConfidential };
}

function openUnfinished(metrics: Metrics): UnfinishedBytes {
  const gauge = metrics
    .gauge(
      "sluice_stream_unfinished_bytes",
      "Bytes of memory held by requests of the encrypted stream that have not arrived completely.",
    )
    .with({});
  return new UnfinishedBytes((bytes) => gauge.set(bytes));
}

function collateralOf({ collateral }: Config, clock: Clock): CollateralSource | undefined {
  const { file, pccs } = collateral;
  if (file !== undefined) return collateralFile(file);
  return pccs === undefined ? undefined : collateralService(pccs, clock);
}

interface ConfidentialServices extends SharedStreamState {
  readonly evidence: EvidenceService;
  /** The deployment's. */
  readonly secret: string;
}

function confidentialOpener({
  evidence,
  secret,
  ...records
}: ConfidentialServices): Services["openConfidential"] {
  const { clock, log, evidenceCache } = records;
  const signer = policySigner(secret);
  return (networks, configured) => {
    const plain = networks.filter(({ termination }) => termination === "gateway");
    const own = {
      clock,
      log,
      evidenceCache,
      provider: (source: EvidenceSource) => evidence.provider(source),
    };
    return createConfidential({
      ...records,
      networks,
      openOwn: (options) => openOwnEnclaves(options.evidence, plain, own),
      policy: createPolicy(configured, signer, clock),
    });
  };
}
