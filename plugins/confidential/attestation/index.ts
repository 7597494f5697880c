/** Service `attestation`: attestation evidence of the machine on which this gateway runs. */
import { defineService, type Host, type JsonSchema } from "sluice-gateway/plugin";
import type { Attestation } from "sluice-gateway/services";
import { simulatedAllowed, simulatedRefusal } from "../evidence/simulated-allowed.ts";
import type { Options } from "./attestation.ts";

/** confidential-stream.md section 3.5: verifiers do not fetch anything, so collateral is sent with the quote. */
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
  start: (options, host) => Promise.resolve({ service: openAtFirstUse(options, host) }),
});

/** Loads the code of evidence and certificates with the first quote, because few gateways create one. */
function openAtFirstUse(options: Options, host: Host): Attestation {
  const mayUseSimulation = simulatedAllowed(host.environment, host.use("gateway"));
  let opening: Promise<Attestation> | undefined;
  const opened = (): Promise<Attestation> =>
    (opening ??= import("./attestation.ts").then(({ openAttestation }) =>
      openAttestation(options, host, mayUseSimulation),
    ));
  return {
    provider: async (source) => (await opened()).provider(source),
    simulatedRoot: async () => (await opened()).simulatedRoot(),
    evidence(source) {
      if (source === "simulated" && !mayUseSimulation) throw new Error(simulatedRefusal);
      return { quote: async (...given) => (await opened()).evidence(source).quote(...given) };
    },
  };
}
