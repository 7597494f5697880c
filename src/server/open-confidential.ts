/** Puts the service `host.confidential` together: networks of the configuration, and what outlives it. */
import type { EvidenceService } from "../confidential/evidence/evidence-service.ts";
import { openOwnEnclaves } from "../confidential/relay/own-enclaves.ts";
import { createPolicy, policySigner } from "../confidential/relay/policy.ts";
import { createConfidential, type StreamRecords } from "../confidential/relay/service.ts";
import type { Services } from "../pipeline/services.ts";
import type { EvidenceSource } from "../services/evidence.ts";

interface ConfidentialServices extends StreamRecords {
  readonly evidence: EvidenceService;
  /** The deployment's. */
  readonly secret: string;
}

export function confidentialOpener({
  evidence,
  secret,
  ...records
}: ConfidentialServices): Services["openConfidential"] {
  const { clock, log, memory } = records;
  const signer = policySigner(secret);
  return (networks, configured) => {
    const plain = networks.filter(({ termination }) => termination === "gateway");
    const own = {
      clock,
      log,
      memory,
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
