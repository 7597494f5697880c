/** The provider of simulated evidence, for development. `openProvider` refuses it in production. */
import type { Clock } from "sluice-gateway/plugin";
import type { EvidenceProvider } from "./provider.ts";
import { createSimulatedPlatform } from "./simulated.ts";

/** `seed`: 32 bytes. Each seed has its own root. */
export async function createSimulatedProvider(
  seed: Uint8Array,
  clock: Clock,
): Promise<EvidenceProvider> {
  const platform = await createSimulatedPlatform(seed);
  return {
    teeType: "simulated",
    simulated: true,
    root: platform.root,
    quote: (reportData) => Promise.resolve(platform.evidence(reportData, clock.now())),
  };
}
