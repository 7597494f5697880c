import { randomBytes } from "node:crypto";
import type { Clock } from "sluice-gateway/plugin";
import type { EvidenceSource } from "sluice-gateway/services";
import type { Fault } from "../protocol/fault.ts";
import type { CollateralSource } from "./collateral.ts";
import { openConfigfsTsm, type TsmOptions } from "./configfs-tsm.ts";
import { hasDstack, openDstack, type DstackOptions } from "./dstack.ts";
import { unavailable, type EvidenceProvider } from "./provider.ts";
import type { RevocationListSource } from "./revocation-list.ts";
import { simulatedRefusal } from "./simulated-allowed.ts";
import { createSimulatedPlatform } from "./simulated.ts";

export interface ProviderDeps {
  readonly clock: Clock;
  readonly simulatedAllowed: boolean;
  readonly collateral?: CollateralSource | undefined;
  readonly revocationLists?: RevocationListSource | undefined;
  /** Seed of the simulation: 32 bytes. Default: random bytes. */
  readonly seed?: Uint8Array;
  readonly tsm?: Pick<TsmOptions, "folder" | "files">;
  readonly dstack?: Pick<DstackOptions, "sockets">;
}

/**
 * `auto` is dstack's agent if there is one, because it has exclusive use of the driver and adds its event log, else the
 * kernel. `auto` never selects the simulation.
 */
export async function openProvider(
  source: EvidenceSource,
  deps: ProviderDeps,
  signal: AbortSignal,
): Promise<EvidenceProvider | Fault> {
  const { clock, simulatedAllowed, collateral, revocationLists, tsm, dstack } = deps;
  const { seed = randomBytes(32) } = deps;
  if (source === "simulated") {
    if (!simulatedAllowed) return unavailable(simulatedRefusal);
    return createSimulatedProvider(seed, clock);
  }
  const isDstack = source === "dstack" || (source === "auto" && hasDstack(dstack?.sockets));
  if (isDstack) return openDstack({ ...dstack, collateral }, signal);
  return openConfigfsTsm(source === "tdx" || source === "sev-snp" ? source : "any", {
    ...tsm,
    collateral,
    revocationLists,
  });
}

/** For development: `openProvider` refuses it in production. `seed`: 32 bytes. Each seed has its own root. */
export async function createSimulatedProvider(
  seed: Uint8Array,
  clock: Clock,
): Promise<EvidenceProvider> {
  const platform = await createSimulatedPlatform(seed);
  return {
    teeType: "simulated",
    root: platform.root,
    quote: (reportData) => Promise.resolve(platform.evidence(reportData, clock.now())),
  };
}
