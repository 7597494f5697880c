/** The simulation as a provider: for development, and refused in production by whoever opens it. */
import type { Clock } from "../../../src/services/clock.ts";
import type { EvidenceProvider } from "./provider.ts";
import { createSimulatedPlatform } from "./simulated.ts";

/** `seed`: 32 bytes; another seed is another root. */
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
