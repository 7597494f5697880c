import { defineService } from "sluice-gateway/plugin";
import type { Proofs } from "sluice-gateway/services";
import {
  checkpointSchema,
  proofSchema,
  relayFaults,
  relaySchema,
  type Options,
} from "./options.ts";

export default defineService<Options, Proofs>({
  name: "proofs",
  description: "Proves the finalized head of the nodes and reads of the state.",
  extends: {
    upstreams: { checkpoint: checkpointSchema, relay: relaySchema, proof: proofSchema },
  },
  checkSections: relayFaults,
  uses: ["ledger"],
  permissions: { deployment: ["store"] },
  dryRun: () => noProofs,
  async start(options, host) {
    const isUsed = Object.values(options.upstreams).some(
      (entry) => entry !== null && (entry.checkpoint ?? entry.relay ?? entry.proof) !== "off",
    );
    if (!isUsed) return { service: noProofs };
    const { openProofs } = await import("./open-proofs.ts");
    return openProofs(options, host);
  },
});

const noProofs: Proofs = { prover: () => undefined };
