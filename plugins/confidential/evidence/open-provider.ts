/** Opens the provider of evidence that was asked for, or finds out what this machine has. */
import { randomBytes } from "node:crypto";
import type { Clock } from "../../../src/services/clock.ts";
import type { EvidenceSource } from "../../../src/services/evidence.ts";
import { fault } from "../protocol/fault.ts";
import type { Fault } from "../protocol/fault.ts";
import type { CollateralSource } from "./collateral.ts";
import { openConfigfsTsm } from "./configfs-tsm.ts";
import type { TsmOptions } from "./configfs-tsm.ts";
import { hasDstack, openDstack } from "./dstack.ts";
import type { DstackOptions } from "./dstack.ts";
import type { EvidenceProvider } from "./provider.ts";
import type { RevocationListSource } from "./revocation-list.ts";
import { createSimulatedProvider } from "./simulated-provider.ts";

export interface ProviderParts {
  readonly clock: Clock;
  /** Evidence that no hardware vouches for may be made here. */
  readonly simulatedAllowed: boolean;
  readonly collateral?: CollateralSource | undefined;
  readonly revocationLists?: RevocationListSource | undefined;
  /** Of the simulation, 32 bytes; new ones for each process unless given. */
  readonly seed?: Uint8Array;
  /** For tests. */
  readonly tsm?: Pick<TsmOptions, "folder" | "files">;
  readonly dstack?: Pick<DstackOptions, "sockets">;
}

/** What is said where a simulation is asked for and must not be. */
export const simulatedRefusal =
  "simulated evidence is refused in prod, unless CONFIDENTIAL_ALLOW_SIMULATED=1 is set";

/**
 * `auto`: dstack's agent where there is one, since it has the driver to itself and adds its log of events; else the
 * kernel. Never a simulation: that one has to be asked for.
 */
export async function openProvider(
  source: EvidenceSource,
  parts: ProviderParts,
  signal: AbortSignal,
): Promise<EvidenceProvider | Fault> {
  const { clock, simulatedAllowed, collateral, revocationLists, tsm, dstack } = parts;
  const { seed = randomBytes(32) } = parts;
  const stapled = collateral === undefined ? {} : { collateral };
  if (source === "simulated") {
    if (!simulatedAllowed) return fault("ATTESTATION_UNAVAILABLE", simulatedRefusal);
    return createSimulatedProvider(seed, clock);
  }
  const isDstack = source === "dstack" || (source === "auto" && hasDstack(dstack?.sockets));
  if (isDstack) return openDstack({ ...dstack, ...stapled }, signal);
  return openConfigfsTsm(source === "tdx" || source === "sev-snp" ? source : "any", {
    ...tsm,
    ...stapled,
    ...(revocationLists !== undefined && { revocationLists }),
  });
}
