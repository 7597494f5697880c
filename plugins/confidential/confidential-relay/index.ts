/** Service `confidential-relay`: the gateway's part of the encrypted stream, and its receipts. */
import { defineService, type Host } from "sluice-gateway/plugin";
import type { Confidential } from "sluice-gateway/services";
import { refuseSimulated } from "../evidence/simulated-allowed.ts";

export default defineService<Record<string, never>, Confidential>({
  name: "confidential-relay",
  description: "Relays the encrypted stream between clients and enclaves, and stores its receipts.",
  needsOneThread: true,
  uses: ["networks", "attestation", "enclave-workers", "gateway"],
  permissions: { deployment: ["store", "seal"] },
  dryRun: (_, host) => createDryRun(host),
  async start(_, host, context) {
    const { openRelay } = await import("./open-relay.ts");
    return { service: await openRelay(host, context) };
  },
});

/** The service without stores and sessions, with which `sluice check` starts the plugins that use it. */
function createDryRun(host: Host): Confidential {
  return {
    stream({ evidence }) {
      refuseSimulated(evidence, host);
      return {
        ready: Promise.resolve(),
        admit: () => undefined,
        serve: () => Promise.resolve(),
        close() {},
      };
    },
    evidence: () => undefined,
    receipt: () => Promise.resolve(undefined),
    policy: () => Promise.resolve({ policy: "", sig: "", key: "" }),
    async readPolicy(document) {
      const { readSignedPolicy } = await import("./policy.ts");
      return readSignedPolicy(document, host.clock);
    },
  };
}
