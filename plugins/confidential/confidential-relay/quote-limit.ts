/**
 * A rate limit for quotes, per workspace. A quote costs the platform and this process tens of milliseconds, and every
 * client can request one in each `hello`.
 */
import type { Clock } from "sluice-gateway/plugin";
import { BoundedMap } from "sluice-gateway/internal/toolkit";
import { createTokenBucket, type TakeToken } from "../enclave/token-bucket.ts";

/**
 * A web client requests a quote for each page that is opened. The limit is lower than that of one enclave
 * (enclave/identity.ts), so that a workspace cannot use up the quotes of the others.
 */
const burst = 16;
const everyMs = 250;
/** The limit of an evicted workspace starts again. */
const maxWorkspaces = 4_096;

/** Returns true, and counts a quote, if the workspace may have one now. */
export type QuoteLimit = (workspaceId: string) => boolean;

export function createQuoteLimit(clock: Clock): QuoteLimit {
  const buckets = new BoundedMap<string, TakeToken>(maxWorkspaces);
  return (workspaceId) => {
    let takeToken = buckets.get(workspaceId);
    if (takeToken === undefined) {
      takeToken = createTokenBucket(burst, everyMs, clock);
      buckets.set(workspaceId, takeToken);
    }
    return takeToken();
  };
}
