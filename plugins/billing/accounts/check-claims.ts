/** Checks claims of callers. A plugin may pass values of any type, because it got them from a server of others. */
import { capabilities, planNames, type CallerClaims } from "sluice-gateway/services";

/** Text of ids without control characters, so that databases and logs can hold it. */
const idText = /^[^\p{Cc}\p{Cs}]{1,512}$/u;

/** Returns true if all values have the types and ranges of `CallerClaims`. */
export function areValidClaims(claims: CallerClaims): boolean {
  return (
    isId(claims.id) &&
    isId(claims.workspaceId) &&
    isPlan(claims.plan) &&
    isPlan(claims.defaultPlan) &&
    Array.isArray(claims.capabilities) &&
    claims.capabilities.every((name) => capabilities.includes(name)) &&
    isLimit(claims.rpsLimit) &&
    isLimit(claims.cuLimit24hMilli) &&
    isLimit(claims.cuLimit30dMilli) &&
    isTime(claims.expiresAt)
  );
}

function isId(value: unknown): boolean {
  return typeof value === "string" && idText.test(value);
}

function isPlan(value: unknown): boolean {
  return value === undefined || planNames.some((name) => name === value);
}

function isLimit(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && Number(value) > 0);
}

function isTime(value: unknown): boolean {
  return value === undefined || Number.isFinite(value);
}
