/**
 * The client of the encrypted stream, for Node and browsers, exported by `sluice-gateway/client`. `connect` verifies
 * the enclave's attestation before anything confidential is sent. If a check fails, no session is opened, and the
 * client never falls back to another way of sending.
 */
import { handshakeMs } from "../protocol/limits.ts";
import { ConfidentialError } from "./failure.ts";
import { openSession } from "./handshake.ts";
import { readOptions } from "./options.ts";
import type { ConnectOptions, Settings } from "./options.ts";
import { readSessionPolicy } from "./policy.ts";
import { createSession } from "./session.ts";
import type { Session } from "./session.ts";

export { recomputeCost } from "./cost.ts";
export { ConfidentialError } from "./failure.ts";
export { createClientMemory } from "./memory.ts";
export type { Answer, ChatRequest, Delta, FinalAnswer, VerifiedUsage } from "./answer.ts";
export type { ClientClock } from "./clock.ts";
export type { ClassPrices, StreamPricing } from "./cost.ts";
export type { ConfidentialCode } from "./failure.ts";
export type { ClientMemory, PolicySerials } from "./memory.ts";
export type { ConnectOptions } from "./options.ts";
export type { Session } from "./session.ts";
export type { UsageReport } from "../protocol/usage-report.ts";
export type { SignedReport, UnverifiedReason } from "../protocol/verify-usage-report.ts";
export type { Assurance, Check, VerificationReport } from "../verify/report.ts";

/**
 * Opens a session and resolves when every check has passed. Rejects with
 *
 * - a ConfidentialError, which lists the checks, if the gateway cannot be reached or a check fails;
 * - a TypeError if an option is invalid;
 * - the reason of `signal` if it aborts;
 * - the error of the function `ticket` if it fails.
 *
 * Makes one attempt. Only if the enclave presents a keyset that this client has not verified before, a second attempt
 * requests a quote that is created for this session.
 */
export async function connect(options: ConnectOptions): Promise<Session> {
  const settings = readOptions(options);
  const { clock, memory, endpoint } = settings;
  const limit = new AbortController();
  const late = new ConfidentialError("TIMEOUT", "the handshake took too long");
  // Twice the server's own limit, to allow time for the network and the policy document.
  const stop = clock.after(2 * handshakeMs, () => limit.abort(late));
  const signals = settings.signal === undefined ? [] : [settings.signal];
  const signal = AbortSignal.any([limit.signal, ...signals]);
  const now = Math.floor(clock.now() / 1000);
  memory.counters.forget(now);
  try {
    // An unknown keyset needs a second connection, which a one-time credential does not allow.
    const mayBeCached = settings.isReusable && memory.keysets.hasAny(endpoint, now);
    return await attempt(settings, signal, mayBeCached ? "cached" : "quote");
  } finally {
    stop();
  }
}

async function attempt(
  settings: Settings,
  signal: AbortSignal,
  freshness: "cached" | "quote",
): Promise<Session> {
  const policy = await readSessionPolicy(settings, signal);
  if (typeof policy === "string") {
    throw new ConfidentialError("POLICY_REFUSED", `the policy document is refused: ${policy}`, {
      checks: [{ name: "policy", result: "fail", why: policy }],
    });
  }
  const open = await openSession({ settings, policy, freshness, signal });
  // A keyset is accepted only after it has presented a quote that was created for this client (confidential-stream.md,
  // 1.4).
  if (open === "unknownKeyset") return attempt(settings, signal, "quote");
  return createSession(open, settings);
}
