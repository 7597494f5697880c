/** Service `sealed-networks`: networks of kind `sealed`, the encrypted networks of another gateway. */
import { defineService, type JsonSchema } from "sluice-gateway/plugin";
import { sealedConfigs, sealedFaults, type Options } from "./options.ts";
import type { SealedNetworks } from "./sealed-networks.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    "sealed-networks": SealedNetworks;
  }
}

const streamSchema: JsonSchema = {
  type: "object",
  description: "For kind sealed: the sessions of the encrypted stream.",
  additionalProperties: false,
  default: {},
  properties: {
    network: {
      type: "string",
      minLength: 1,
      description:
        "Name of the network at the gateway. Default: every network whose models the gateway lists with evidence.",
    },
    termination: {
      enum: ["worker", "gateway"],
      description:
        "Where the encryption must end. Default: as in the policy document, else worker.",
    },
    policy_key: {
      type: "string",
      pattern: "^[A-Za-z0-9_-]{43}$",
      description: "Public key of the operator's policy document, in base64url.",
    },
    max_price_nano: {
      type: "string",
      format: "decimal",
      description:
        "Highest price of a token, in nano native tokens. By default, any price is accepted.",
    },
  },
};

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
