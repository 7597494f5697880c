/** Service `proofs`: proves what the nodes of an upstream say, beginning with a checkpoint of the operator. */
import { defineService } from "sluice-gateway/plugin";
import { checkpointSchema, type Options } from "./options.ts";

export default defineService<Options, undefined>({
  name: "proofs",
  description: "Proves the finalized head of the nodes by GRANDPA justifications.",
  extends: { upstreams: { checkpoint: checkpointSchema } },
  uses: ["upstreams"],
  permissions: { hosts: ["*"] },
  dryRun: () => undefined,
  async start(options, host) {
    const isUsed = Object.values(options.upstreams).some(
      (entry) => entry?.checkpoint !== undefined,
    );
    if (!isUsed) return { service: undefined };
    const { watchHeads } = await import("./watch-heads.ts");
    return { service: undefined, ...watchHeads(options, host) };
  },
});
