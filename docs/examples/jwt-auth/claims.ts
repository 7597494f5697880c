/** Callers without a valid token, and values of claims. */
import type { Anonymous, PlanName } from "sluice-gateway/services";

export const plans: readonly PlanName[] = ["free", "developer", "startup", "enterprise"];
export const missing: Anonymous = { kind: "anonymous", reason: "missing authorization header" };
export const unauthorized: Anonymous = { kind: "anonymous", reason: "unauthorized" };

/** Returns undefined for a claim that is not a positive integer. */
export function positive(claim: unknown): number | undefined {
  return Number.isSafeInteger(claim) && Number(claim) > 0 ? Number(claim) : undefined;
}
