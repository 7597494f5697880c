/** Service `sealed-networks`: networks of kind `sealed`, the encrypted networks of another gateway. */
import { defineService } from "sluice-gateway/plugin";
import { sealedConfigs, sealedFaults, streamSchema, type Options } from "./options.ts";
import type { SealedNetworks } from "./sealed-networks.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "sealed-networks": SealedNetworks;
  }
}

export default defineService<Options, SealedNetworks>({
  name: "sealed-networks",
  description: "The encrypted networks of another gateway, verified by this one.",
  extends: {
    networks: {
      kind: {
        enum: ["sealed"],
        description:
          "Protocol of the workers: OpenAI's API, the encrypted stream of workers, or that of another gateway.",
      },
      stream: streamSchema,
    },
  },
  uses: ["networks"],
  checkSections: sealedFaults,
  dryRun: () => withoutNetworks,
  async start(options, host, context) {
    if (sealedConfigs(options).size === 0) return { service: withoutNetworks };
    const { openSealedNetworks } = await import("./sealed-networks.ts");
    return { service: openSealedNetworks(options, host, context) };
  },
});

const withoutNetworks: SealedNetworks = {
  verifications: () => [],
  requests: () => [],
  listFault: undefined,
  verify: () => Promise.resolve(undefined),
};
