/** The limits on the credit of a key: the plan of its workspace, and its windows of 30 days and 24 hours. */
import type { CuRefusal, KeyPrincipal } from "sluice-gateway/services";
import type { KeyCredit, WorkspaceCredit } from "./credit.ts";

/**
 * Returns the reason why `costMilliCu` does not fit, or undefined if it fits. If several scopes refuse, the one that
 * takes longest to clear is reported: plan, then 30d, then 24h.
 */
export function refusalOf(
  principal: KeyPrincipal,
  key: KeyCredit,
  workspace: WorkspaceCredit,
  costMilliCu: number,
  now: number,
): CuRefusal | undefined {
  const { plan } = principal;
  if (!workspace.fits(costMilliCu, plan, principal.workspace)) {
    return refusal(undefined, workspace.usedMilliCu, workspace.limit(plan, principal.workspace));
  }
  const monthMilliCu = key.month.sum(now) + key.openMilliCu;
  const monthLimitMilliCu = principal.key.cuLimit30dMilli ?? Number.MAX_SAFE_INTEGER;
  if (monthMilliCu + costMilliCu > monthLimitMilliCu)
    return refusal("30d", monthMilliCu, monthLimitMilliCu);
  const dayMilliCu = key.day.sum(now) + key.openMilliCu;
  const dayLimitMilliCu = principal.key.cuLimit24hMilli ?? Number.MAX_SAFE_INTEGER;
  if (dayMilliCu + costMilliCu > dayLimitMilliCu)
    return refusal("24h", dayMilliCu, dayLimitMilliCu);
  return undefined;
}

function refusal(
  window: CuRefusal["window"],
  usedMilliCu: number,
  limitMilliCu: number,
): CuRefusal {
  return {
    kind: "refused",
    window,
    usedMilliCu,
    limitMilliCu: Math.min(limitMilliCu, Number.MAX_SAFE_INTEGER),
  };
}

/**
 * Returns how much more can be reserved while all sums stay safe integers, even if the journal holds larger sums of
 * earlier days.
 */
export function maxExactMilliCu(key: KeyCredit, workspace: WorkspaceCredit, now: number): number {
  const usedMilliCu = Math.max(key.month.sum(now) + key.openMilliCu, workspace.usedMilliCu);
  return Math.max(0, Number.MAX_SAFE_INTEGER - usedMilliCu);
}
