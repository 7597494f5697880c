/** Checks the claims of callers. A plugin may pass them exactly as another server has sent them. */
import {
  capabilities,
  planNames,
  type CallerClaims,
  type ReceivedClaims,
} from "sluice-gateway/services";

/** The names of the capabilities, for values of any type. */
const names: ReadonlySet<unknown> = new Set(capabilities);
/** The form of ids: text without control characters, so that databases and logs can store it. */
const idText = /^[^\p{Cc}\p{Cs}]{1,512}$/u;

/** Returns true if all values have the types and ranges of `CallerClaims`. */
export function areValidClaims(claims: ReceivedClaims): claims is CallerClaims {
  return (
    isId(claims.id) &&
    isId(claims.workspaceId) &&
    // The ledger of leases counts both in one set of names.
    claims.id !== claims.workspaceId &&
    isPlan(claims.plan) &&
    isPlan(claims.defaultPlan) &&
    Array.isArray(claims.capabilities) &&
    claims.capabilities.every((name) => names.has(name)) &&
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
