import type { Environment, GatewayInfo, Host } from "sluice-gateway/plugin";
import type { EvidenceSource } from "sluice-gateway/services";

export const simulatedRefusal =
  "simulated evidence is refused in prod, unless CONFIDENTIAL_ALLOW_SIMULATED=1 is set";

/** Returns true outside prod, and in prod with CONFIDENTIAL_ALLOW_SIMULATED=1. */
export function simulatedAllowed(
  environment: Environment,
  gateway: Pick<GatewayInfo, "variable">,
): boolean {
  return environment !== "prod" || gateway.variable("CONFIDENTIAL_ALLOW_SIMULATED") === "1";
}

/** Throws if `evidence` is simulated and this gateway may not use it. */
export function refuseSimulated(evidence: EvidenceSource | undefined, host: Host): void {
  if (evidence !== "simulated") return;
  if (!simulatedAllowed(host.environment, host.use("gateway"))) throw new Error(simulatedRefusal);
}
