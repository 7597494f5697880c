/**
 * The gateway's own enclaves, for networks whose workers have none: it ends the encryption in its own process, and what
 * attests that process is shown to clients.
 */
import type { Clock } from "../../../src/services/clock.ts";
import type { EvidenceSource } from "../../../src/services/evidence.ts";
import type { Log } from "../../../src/services/log.ts";
import type { ModelEntry, Offer } from "../../../src/services/networks.ts";
import { createEnclaveIdentity, type EnclaveIdentity } from "../enclave/identity.ts";
import type { EvidenceProvider } from "../evidence/provider.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import type { Hello } from "../protocol/hello.ts";
import type { HeldBytes } from "../../../src/http/unfinished-bytes.ts";
import type { EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { EvidenceCache } from "./evidence-cache.ts";
import { LocalLink } from "./local-link.ts";
import { openEnclave } from "./open-enclave.ts";
import type { OwnEnclaves } from "./service.ts";
import type { AttestedUpstream, StreamPrice } from "./upstream-session.ts";

/** A network whose requests leave this process in the clear. */
export interface PlainNetwork {
  readonly name: string;
  /** By id. */
  readonly models: ReadonlyMap<string, Offer & { readonly entry: ModelEntry }>;
  /** At a coefficient, in thousandths. */
  price(coefficient: number): StreamPrice;
}

interface OwnEnclaveDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly memory: EvidenceCache;
  provider(source: EvidenceSource): Promise<EvidenceProvider | Fault>;
}

const notHere = fault("TERMINATION_NOT_AVAILABLE", "this gateway is no enclave itself");

/** Of a gateway that nobody attests. */
const noEnclaves: OwnEnclaves = {
  ready: Promise.resolve(),
  open: () => Promise.resolve(notHere),
  close() {},
};

/** One identity for each network: a keyset names the network that it is for. */
export function openOwnEnclaves(
  source: EvidenceSource | undefined,
  networks: readonly PlainNetwork[],
  parts: OwnEnclaveDeps,
): OwnEnclaves {
  if (source === undefined || networks.length === 0) return noEnclaves;
  const { clock, log } = parts;
  const identities = new Map<string, EnclaveIdentity>();
  let isClosed = false;
  const start = async (): Promise<void> => {
    const provider = await parts.provider(source);
    if (isFault(provider)) {
      log.error({ evidence: source, reason: provider.message }, "nobody attests this gateway");
      return;
    }
    if (provider.simulated) {
      log.warn({}, "this gateway's evidence is SIMULATED - NOT A TEE");
    }
    if (isClosed) return;
    for (const { name } of networks) {
      identities.set(
        name,
        createEnclaveIdentity({ net: name, role: "gateway", provider, clock, log }),
      );
    }
    await Promise.all(identities.values().map(({ ready }) => ready));
  };
  const named = new Map(networks.map((network) => [network.name, network]));
  return {
    ready: start(),
    async open(name, helloBytes, hello, hold) {
      const network = named.get(name);
      const identity = identities.get(name);
      if (network === undefined) return notHere;
      if (identity === undefined) {
        return fault("ATTESTATION_UNAVAILABLE", "nobody attests this gateway");
      }
      return openAt(network, identity, helloBytes, hello, { ...parts, hold });
    },
    close() {
      isClosed = true;
      for (const identity of identities.values()) identity.close();
    },
  };
}

async function openAt(
  network: PlainNetwork,
  identity: EnclaveIdentity,
  helloBytes: Uint8Array,
  hello: Hello,
  { clock, log, memory, hold }: OwnEnclaveDeps & { readonly hold: () => HeldBytes },
): Promise<AttestedUpstream | Fault> {
  // Which of its workers answers is not known yet: none costs more than this.
  const coefficient = network.models.get(hello.model)?.entry.coefficients?.priority ?? 1000;
  if (coefficient > (hello.maxCoefficient ?? Infinity)) {
    return fault("PRICE_ABOVE_MAX", "the coefficient is above max_coefficient");
  }
  // A client that knows it is sent its digest alone.
  const keyset = identity.current();
  if (!isFault(keyset) && hello.evidence === "known") await memory.keep(keyset.evidence, false);
  const find = (id: string): Offer | undefined => network.models.get(id);
  const link = new LocalLink({ identity, find, clock, log, hold });
  const opened = await openEnclave(link, helloBytes, hello, {
    clock,
    role: "gateway",
    policyFor: () => ({ imageHashes: "any" }),
    verifier: ownVerifier(identity.provider),
    memory,
  });
  if (isFault(opened)) return opened;
  return {
    ...opened,
    workerId: undefined,
    price: network.price(coefficient),
    ended() {},
  };
}

/** The gateway need not convince itself; its clients verify what they are shown. */
function ownVerifier({ teeType }: EvidenceProvider): EvidenceVerifier {
  return {
    verify: () =>
      Promise.resolve({ verified: teeType !== "simulated", assurance: teeType, checks: [] }),
  };
}
