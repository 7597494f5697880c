/** Service `attestation`: attestation evidence of the machine on which this gateway runs. */
import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import type { Attestation } from "sluice-gateway/services";
import type { Options } from "./attestation.ts";

/**
 * The section `collateral`. confidential-stream.md section 3.5: verifiers do not fetch anything, so collateral is sent
 * with the quote.
 */
const collateralSchema: JsonSchema = {
  type: "object",
  description:
    "Sources of the collateral that verifiers need in addition to this gateway's evidence.",
  additionalProperties: false,
  default: {},
  properties: {
    pccs: {
      type: "string",
      format: "http-url",
      description:
        "TDX: URL of Intel's collateral, a PCCS or https://api.trustedservices.intel.com.",
    },
    file: {
      type: "string",
      minLength: 1,
      description:
        "TDX: a JSON file with the collateral, instead of pccs. The path is relative to pipeline.yaml. The file is read again for each quote.",
    },
    kds: {
      type: "string",
      format: "http-url",
      description:
        "SEV-SNP: URL of AMD's revocation list, https://kdsintf.amd.com or a mirror of it.",
    },
  },
};

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
