/**
 * The gateway's own enclaves, for networks whose workers have none. The gateway decrypts sessions in its own process
 * and shows clients the attestation of that process.
 */
import type { HeldBytes } from "sluice-gateway/internal/http";
import type { Clock, Log } from "sluice-gateway/plugin";
import type { EvidenceSource, Offer, OpenNetwork } from "sluice-gateway/services";
import type { EnclaveIdentity } from "../enclave/identity.ts";
import type { EvidenceProvider } from "../evidence/provider.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import type { EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { EvidenceCache } from "./evidence-cache.ts";
import { LocalLink } from "./local-link.ts";
import { openEnclave } from "./open-enclave.ts";
import type { OwnEnclaves } from "./service.ts";
import type { AttestedUpstream } from "./open-enclave.ts";

interface OwnEnclaveDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly evidenceCache: EvidenceCache;
  provider(source: EvidenceSource): Promise<EvidenceProvider | Fault>;
}

const noEnclave = fault("TERMINATION_NOT_AVAILABLE", "this gateway is not an enclave");

const noEnclaves: OwnEnclaves = {
  ready: Promise.resolve(),
  open: () => Promise.resolve(noEnclave),
  close() {},
};

/**
 * `networks`: the networks whose requests leave this process unencrypted. Each has its own identity, because a keyset
 * names the network that it is valid for.
 */
export function openOwnEnclaves(
  source: EvidenceSource | undefined,
  networks: readonly OpenNetwork[],
  deps: OwnEnclaveDeps,
): OwnEnclaves {
  if (source === undefined || networks.length === 0) return noEnclaves;
  const { clock, log } = deps;
  const identities = new Map<string, EnclaveIdentity>();
  let isClosed = false;
  const start = async (): Promise<void> => {
    const provider = await deps.provider(source);
    if (isFault(provider)) {
      log.error({ evidence: source, reason: provider.message }, "this gateway has no attestation");
      return;
    }
    if (provider.teeType === "simulated") {
      log.warn({}, "this gateway's evidence is SIMULATED - NOT A TEE");
    }
    // Only an enclave needs the code of evidence and certificates.
    const { createEnclaveIdentity } = await import("../enclave/identity.ts");
    if (isClosed) return;
    for (const { name } of networks.map(({ config }) => config)) {
      identities.set(
        name,
        createEnclaveIdentity({ net: name, role: "gateway", provider, clock, log }),
      );
    }
    await Promise.all(identities.values().map(({ ready }) => ready));
  };
  const named = new Map(networks.map((network) => [network.config.name, network]));
  return {
    ready: start(),
    async open(name, helloBytes, hello, hold) {
      const network = named.get(name);
      const identity = identities.get(name);
      if (network === undefined) return noEnclave;
      if (identity === undefined) {
        return fault("ATTESTATION_UNAVAILABLE", "this gateway has no attestation");
      }
      return openAt(network, identity, helloBytes, hello, { ...deps, hold });
    },
    close() {
      isClosed = true;
      for (const identity of identities.values()) identity.close();
    },
  };
}

async function openAt(
  network: OpenNetwork,
  identity: EnclaveIdentity,
  helloBytes: Uint8Array,
  hello: Hello,
  { clock, log, evidenceCache, hold }: OwnEnclaveDeps & { readonly hold: () => HeldBytes },
): Promise<AttestedUpstream | Fault> {
  // It is not known yet which worker will answer. None has a higher coefficient than this one.
  const model = network.models.get(hello.model);
  const coefficient = model?.entry.coefficients?.priority ?? 1000;
  if (coefficient > (hello.maxCoefficient ?? Infinity)) {
    return fault("PRICE_ABOVE_MAX", "the coefficient is above max_coefficient");
  }
  // A client that already knows the evidence gets only its digest, so the cache must have it.
  const keyset = identity.current();
  if (!isFault(keyset) && hello.evidence === "known")
    await evidenceCache.keep(keyset.evidence, false);
  const find = (id: string): Offer | undefined => network.models.get(id);
  const link = new LocalLink({ identity, find, clock, log, hold });
  const opened = await openEnclave(link, helloBytes, hello, {
    clock,
    role: "gateway",
    policyFor: () => ({ imageHashes: "any" }),
    verifier: ownVerifier(identity.provider),
    evidenceCache,
  });
  if (isFault(opened)) return opened;
  return {
    ...opened,
    workerId: undefined,
    price: (model ?? network).priceAt(coefficient),
    onEnd() {},
  };
}

/** The gateway trusts its own evidence, and its clients verify it. */
function ownVerifier({ teeType }: EvidenceProvider): EvidenceVerifier {
  return {
    verify: () =>
      Promise.resolve({ verified: teeType !== "simulated", assurance: teeType, checks: [] }),
  };
}
