/** The service without stores and sessions, with which `sluice check` starts the plugins that use it. */
import type { Host } from "sluice-gateway/plugin";
import type { Confidential, StreamOptions } from "sluice-gateway/services";
import { simulatedAllowed, simulatedRefusal } from "../evidence/simulated-allowed.ts";
import { readSignedPolicy } from "./policy.ts";

export function createDryRun(host: Host): Confidential {
  return {
    stream(options) {
      refuseSimulated(options, host);
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
    readPolicy: (document) => readSignedPolicy(document, host.clock),
  };
}

export function refuseSimulated({ evidence }: StreamOptions, host: Host): void {
  if (evidence !== "simulated") return;
  if (!simulatedAllowed(host.environment, host.use("gateway"))) throw new Error(simulatedRefusal);
}
