/**
 * How often a workspace may have quotes made for its sessions: each costs the platform, and this process, tens of
 * milliseconds, and anybody who may open sessions can ask for one in every `hello`.
 */
import type { Clock } from "../../../src/services/clock.ts";
import { createTokenBucket, type TakeToken } from "../enclave/token-bucket.ts";

/** Every page that is opened asks for one. Less than one enclave makes (enclave/identity.ts): others need theirs. */
const burst = 16;
const everyMs = 250;
/** Workspaces remembered; one that is forgotten starts anew. */
const mostWorkspaces = 4_096;

/** Whether the workspace may have one now; then it counts. */
export type QuoteLimit = (workspaceId: string) => boolean;

export function createQuoteLimit(clock: Clock): QuoteLimit {
  /** Least recently asked first. */
  const allowances = new Map<string, TakeToken>();
  return (workspaceId) => {
    const isAllowed = allowances.get(workspaceId) ?? createTokenBucket(burst, everyMs, clock);
    allowances.delete(workspaceId);
    allowances.set(workspaceId, isAllowed);
    const oldest = allowances.keys().next().value;
    if (allowances.size > mostWorkspaces && oldest !== undefined) allowances.delete(oldest);
    return isAllowed();
  };
}
