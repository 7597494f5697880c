/**
 * Who an enclave is: a keyset whose private keys are made here and never leave the process's memory, and the evidence
 * that binds it. A new one takes its place long before it ends, so that every session has time.
 */
import type { Clock } from "../../../src/services/clock.ts";
import type { Log } from "../../../src/services/log.ts";
import type { EvidenceProvider } from "../evidence/provider.ts";
import { bindsReportData, whenAborted } from "../evidence/provider.ts";
import { hasRevocationList } from "../evidence/revocation-list.ts";
import { fault, isFault } from "../protocol/fault.ts";
import type { Fault } from "../protocol/fault.ts";
import { digestName } from "../protocol/handshake.ts";
import type { Role } from "../protocol/hello.ts";
import { writeKeyset } from "../protocol/keyset.ts";
import type { Keyset } from "../protocol/keyset.ts";
import { keysetSeconds } from "../protocol/limits.ts";
import { createSigner, nodeSuite } from "../protocol/node-crypto.ts";
import { evidenceDigest, sessionReportData } from "../protocol/report-data.ts";
import type { Signer } from "../protocol/suite.ts";
import type { Bytes } from "../verify/binary-text.ts";
import type { AttestationEvidence } from "../verify/evidence.ts";
import { createTokenBucket } from "./token-bucket.ts";

export interface IdentityDeps {
  readonly net: string;
  readonly role: Role;
  /** What this code claims to serve. */
  readonly models?: Keyset["models"];
  readonly provider: EvidenceProvider;
  readonly clock: Clock;
  readonly log?: Log;
}

/** The keys that a session begins with, and keeps. */
export interface EnclaveKeyset {
  /** The exact bytes that the evidence binds. */
  readonly keyset: Bytes;
  /** `sha256:<hex>` of them. */
  readonly digest: string;
  /** Seconds since 1970. */
  readonly notAfter: number;
  /** Signs handshakes. */
  readonly hs: Signer;
  /** Signs usage reports. */
  readonly ur: Signer;
  /** For any client: bound without a nonce. */
  readonly evidence: AttestationEvidence;
  /** `sha256:<hex>`. */
  readonly evidenceDigest: string;
  /** The number of the next report: from 1, each once. */
  ctr(): number;
}

export interface EnclaveIdentity {
  readonly net: string;
  readonly role: Role;
  readonly provider: EvidenceProvider;
  /** Resolves when the first keyset has been tried for; `current` then tells how that went. */
  readonly ready: Promise<void>;
  /** What sessions begin with now; a fault while there is no evidence. */
  current(): EnclaveKeyset | Fault;
  /**
   * Evidence that also binds a client's nonce (32 bytes). It costs the platform tens of milliseconds: not without
   * limit.
   */
  quoteFor(
    keyset: EnclaveKeyset,
    nonce: Uint8Array,
    signal: AbortSignal,
  ): Promise<AttestationEvidence | Fault>;
  /** No new keyset is made any more. */
  close(): void;
}

/** Half of a keyset's life is left to whoever begins just before the next. */
const renewMs = (keysetSeconds * 1000) / 2;
const retryMs = 10_000;
const quoteMs = 20_000;
/** Quotes for nonces: so many at once, then one in so many milliseconds, which is half of what a TDX platform makes. */
const quoteBurst = 32;
const quoteEveryMs = 100;

/** Begins at once; never rejects. */
export function createEnclaveIdentity(deps: IdentityDeps): EnclaveIdentity {
  const { net, role, provider, clock, log } = deps;
  const closing = new AbortController();
  const isAllowed = createTokenBucket(quoteBurst, quoteEveryMs, clock);
  let held: EnclaveKeyset | Fault = fault("ATTESTATION_UNAVAILABLE", "there is no evidence yet");
  let next: Disposable | undefined;

  async function renew(): Promise<void> {
    const made = await makeKeyset(deps, closing.signal);
    if (closing.signal.aborted) return;
    if (!isFault(made)) {
      held = made;
      log?.info({ keyset: made.digest, tee: provider.teeType }, "a keyset has been attested");
    } else {
      // What is held serves on until it ends.
      if (isFault(held)) held = made;
      log?.warn({ reason: made.message }, "no keyset could be attested");
    }
    next = clock.after(isFault(made) ? retryMs : renewMs, () => void renew());
  }

  return {
    net,
    role,
    provider,
    ready: renew(),
    current() {
      if (isFault(held) || clock.now() < held.notAfter * 1000) return held;
      return fault("ATTESTATION_UNAVAILABLE", "the keyset has expired");
    },
    async quoteFor({ digest }, nonce, signal) {
      if (!isAllowed()) return fault("RATE_LIMITED", "too many quotes asked for");
      return quote(deps, digest, nonce, signal);
    },
    close() {
      closing.abort();
      next?.[Symbol.dispose]();
    },
  };
}

async function makeKeyset(deps: IdentityDeps, signal: AbortSignal): Promise<EnclaveKeyset | Fault> {
  const { net, role, models, clock } = deps;
  const [hs, ur] = [createSigner(), createSigner()];
  const notAfter = Math.floor(clock.now() / 1000) + keysetSeconds;
  const named = { net, role, notAfter, ...(models && { models }) };
  const keyset = writeKeyset({ hs: hs.publicKey, ur: ur.publicKey, ...named });
  if (keyset === undefined) return fault("ATTESTATION_UNAVAILABLE", "a name cannot be written");
  const digest = await digestName(nodeSuite, keyset);
  const evidence = await quote(deps, digest, undefined, signal);
  if (isFault(evidence)) return evidence;
  const evidenceName = await evidenceDigest(nodeSuite, evidence);
  if (evidenceName === undefined)
    return fault("ATTESTATION_UNAVAILABLE", "the evidence has no digest");
  let count = 0;
  return {
    keyset,
    digest,
    notAfter,
    hs,
    ur,
    evidence,
    evidenceDigest: evidenceName,
    ctr: () => ++count,
  };
}

async function quote(
  { provider, role, clock, log }: IdentityDeps,
  digest: string,
  nonce: Uint8Array | undefined,
  signal: AbortSignal,
): Promise<AttestationEvidence | Fault> {
  const late = new AbortController();
  using _limit = clock.after(quoteMs, () => late.abort());
  const reportData = await sessionReportData(nodeSuite, digest, nonce, role);
  const until = AbortSignal.any([signal, late.signal]);
  const asked = provider.quote(reportData, until).catch((error: unknown) => {
    log?.error({ err: error }, "the provider of evidence broke");
    return fault("ATTESTATION_UNAVAILABLE", "the platform made no report");
  });
  const made = await Promise.race([asked, whenAborted(until)]);
  if (made === undefined) return fault("ATTESTATION_UNAVAILABLE", "the platform took too long");
  if (isFault(made)) return made;
  if (!(await bindsReportData(made, reportData))) {
    return fault("ATTESTATION_UNAVAILABLE", "the quote binds something else");
  }
  if (provider.staples !== true) return made;
  // Most verifiers refuse evidence without it: trying again soon is better than serving such a keyset for an hour.
  if (provider.teeType === "sev-snp") return hasRevocationList(made) ? made : noRevocationList;
  return made.collateral === undefined ? noCollateral : made;
}

const noCollateral = fault("ATTESTATION_UNAVAILABLE", "Intel's collateral cannot be fetched");
const noRevocationList = fault(
  "ATTESTATION_UNAVAILABLE",
  "AMD's revocation list cannot be fetched",
);
