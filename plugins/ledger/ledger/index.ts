/** Service `ledger`: pools of Substrate nodes at the backends of the section `upstreams`, and their decoders. */
import { defineService } from "sluice-gateway/plugin";
import type { Ledgers } from "sluice-gateway/services";
import { nodeMembers, type Options } from "./options.ts";

export default defineService<Options, Ledgers>({
  name: "ledger",
  description: "Pools of Substrate nodes with a whitelist, a cache and decoders.",
  extends: { upstreams: nodeMembers },
  uses: ["upstreams"],
  async dryRun(options, host) {
    const { unconnectedLedgers } = await import("./unconnected.ts");
    return unconnectedLedgers(options, host);
  },
  async start(options, host, context) {
    const { openLedgers } = await import("./ledgers.ts");
    return openLedgers(options, host, context);
  },
});
