import { defineService } from "sluice-gateway/plugin";
import type { Networks } from "sluice-gateway/services";
import { kindFaults, type Options } from "./options.ts";
import { networksSchema, rateSchema } from "./schema.ts";

export default defineService<Options, Networks>({
  name: "networks",
  description: "The inference networks, with their workers, models and prices.",
  sections: { networks: networksSchema, rate: rateSchema },
  usesIfInstalled: ["accounts"],
  checkSections: kindFaults,
  dryRun: ({ networks }) => ({
    names: Object.keys(networks),
    open: [],
    models: () => [],
    unread: () => true,
    override: () => Promise.resolve(undefined),
    find: () => undefined,
    addKind() {},
  }),
  async start(options, host, context) {
    const { openNetworks } = await import("./open-networks.ts");
    return openNetworks(options, host, context);
  },
});
