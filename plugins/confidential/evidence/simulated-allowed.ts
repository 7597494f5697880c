/** Decides whether simulated evidence, which no hardware attests, may be used. */
import type { Environment, GatewayInfo } from "sluice-gateway/plugin";

/** The message for simulated evidence that is requested but not allowed. */
export const simulatedRefusal =
  "simulated evidence is refused in prod, unless CONFIDENTIAL_ALLOW_SIMULATED=1 is set";

/** Returns true outside prod, and in prod with CONFIDENTIAL_ALLOW_SIMULATED=1. */
export function simulatedAllowed(
  environment: Environment,
  gateway: Pick<GatewayInfo, "variable">,
): boolean {
  return environment !== "prod" || gateway.variable("CONFIDENTIAL_ALLOW_SIMULATED") === "1";
}
