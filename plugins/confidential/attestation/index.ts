/** Service `attestation`: attestation evidence of the machine on which this gateway runs. */
import { defineService } from "sluice-gateway/plugin";
import type { Attestation } from "sluice-gateway/services";
import type { Options } from "./attestation.ts";
import { collateralSchema } from "./schema.ts";

export default defineService<Options, Attestation>({
  name: "attestation",
  description: "Attests the machine on which this gateway runs.",
  sections: { collateral: collateralSchema },
  uses: ["gateway"],
  async start(options, host) {
    const { openAttestation } = await import("./attestation.ts");
    return { service: openAttestation(options, host) };
  },
});
