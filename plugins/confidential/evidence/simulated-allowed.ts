import type { Environment, GatewayInfo } from "sluice-gateway/plugin";

export const simulatedRefusal =
  "simulated evidence is refused in prod, unless CONFIDENTIAL_ALLOW_SIMULATED=1 is set";

/** Returns true outside prod, and in prod with CONFIDENTIAL_ALLOW_SIMULATED=1. */
export function simulatedAllowed(
  environment: Environment,
  gateway: Pick<GatewayInfo, "variable">,
): boolean {
  return environment !== "prod" || gateway.variable("CONFIDENTIAL_ALLOW_SIMULATED") === "1";
}
