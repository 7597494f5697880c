/** The principal of a caller, from the claims of its token and the accounts of the gateway. */
import type { JWTPayload } from "jose";
import type { Host } from "sluice-gateway/plugin";
import { capabilities, type KeyPrincipal, type PlanName } from "sluice-gateway/services";

export const plans: readonly PlanName[] = ["free", "developer", "startup", "enterprise"];

/** The names of the claims, and the values that apply if a token does not have them. */
export interface Mapping {
  readonly workspaceClaim: string;
  readonly scopeClaim: string;
  readonly planClaim: string;
  readonly plan?: PlanName;
  readonly rpsClaim: string;
  readonly rps?: number;
  readonly dailyMilliCuClaim: string;
  readonly dailyMilliCu?: number;
}

/**
 * Returns undefined if the token names no workspace, or one of which no plan is known. Rejects if the accounts cannot be
 * read.
 */
export async function principalOf(
  claims: JWTPayload,
  options: Mapping,
  host: Host,
): Promise<KeyPrincipal | undefined> {
  const { admin } = host.use("accounts");
  const { sub = "", iat = 0, [options.workspaceClaim]: id, [options.scopeClaim]: scope } = claims;
  if (typeof id !== "string") return undefined;
  const known = await admin.findWorkspace(id);
  const claimed = plans.find((name) => name === claims[options.planClaim]);
  const planName = claimed ?? known?.plan ?? options.plan;
  if (planName === undefined) return undefined;
  const plan = admin.plan(planName);
  // Most providers send the scopes as text, and some as an array.
  const scopes = new Set([scope].flat().join(" ").split(" "));
  const owned = new Set(capabilities.filter((each) => scopes.has(each)));
  const rpsLimit = positive(claims[options.rpsClaim]) ?? options.rps;
  const cuLimit24hMilli = positive(claims[options.dailyMilliCuClaim]) ?? options.dailyMilliCu;
  const { environment } = host;
  const createdAt = iat * 1000;
  const who = { id: `oidc_${sub}`, workspaceId: id, name: sub, environment, createdAt };
  const limits = { rpsLimit, cuLimit24hMilli, cuLimit30dMilli: undefined };
  const ends = { expiresAt: undefined, revokedAt: undefined, allowedAddresses: undefined };
  const later = { pendingPlan: undefined, pendingPlanAt: undefined };
  const paid = { purchasedTotalMilliCu: 0, overageLimitCuMilli: undefined };
  return {
    kind: "key",
    key: { ...who, ...limits, ...ends, capabilities: owned },
    workspace: { id, name: id, createdAt, ...later, ...paid, ...known, plan: planName },
    plan,
    rps: Math.min(rpsLimit ?? Infinity, plan.rps),
  };
}

/** Returns undefined for a claim that is not a positive integer. */
function positive(claim: unknown): number | undefined {
  return Number.isSafeInteger(claim) && Number(claim) > 0 ? Number(claim) : undefined;
}
