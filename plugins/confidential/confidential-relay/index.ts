/** Service `confidential-relay`: the gateway's part of the encrypted stream, and its receipts. */
import { defineService } from "sluice-gateway/plugin";
import type { Confidential } from "sluice-gateway/services";

export default defineService<Record<string, never>, Confidential>({
  name: "confidential-relay",
  description: "Relays the encrypted stream between clients and enclaves, and stores its receipts.",
  needsOneThread: true,
  uses: ["networks", "attestation", "enclave-workers", "gateway"],
  permissions: { deployment: ["store", "seal"] },
  async dryRun(_, host) {
    const { createDryRun } = await import("./dry-run.ts");
    return createDryRun(host);
  },
  async start(_, host, context) {
    const { openRelay } = await import("./open-relay.ts");
    return { service: await openRelay(host, context) };
  },
});
