/** Service `enclave-workers`: networks of kind `enclave`, whose workers decrypt the encrypted stream themselves. */
import { defineService } from "sluice-gateway/plugin";
import type { EnclaveWorkers } from "./enclave-workers.ts";
import { evidenceFaults, type Options } from "./options.ts";
import { evidenceSchema } from "./schema.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "enclave-workers": EnclaveWorkers;
  }
}

export default defineService<Options, EnclaveWorkers>({
  name: "enclave-workers",
  description: "Inference networks whose workers decrypt the encrypted stream in their enclaves.",
  extends: {
    networks: {
      kind: {
        enum: ["enclave"],
        description: "Protocol of the workers: OpenAI's API, or the encrypted stream.",
      },
      evidence: evidenceSchema,
    },
  },
  uses: ["networks"],
  checkSections: evidenceFaults,
  async start(options, host, context) {
    const { openEnclaveWorkers } = await import("./enclave-workers.ts");
    return { service: openEnclaveWorkers(options, host, context) };
  },
});
