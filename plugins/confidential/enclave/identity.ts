/**
 * The identity of an enclave: a keyset, whose private keys never leave the process's memory, and the evidence that
 * binds it. It is replaced long before it expires, so that every session has enough time.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import { bindsReportData, whenAborted, type EvidenceProvider } from "../evidence/provider.ts";
import { hasRevocationList } from "../evidence/revocation-list.ts";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { digestName } from "../protocol/handshake.ts";
import type { Role } from "../protocol/hello.ts";
import { writeKeyset } from "../protocol/keyset.ts";
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
  readonly provider: EvidenceProvider;
  readonly clock: Clock;
  readonly log?: Log;
}

/** A keyset with its private keys and evidence. A session uses the same keyset from its start to its end. */
export interface EnclaveKeyset {
  /** The exact bytes that the evidence binds. */
  readonly keyset: Bytes;
  /** `sha256:<hex>` of `keyset`. */
  readonly digest: string;
  /** Seconds since 1970. */
  readonly notAfter: number;
  /** Signs handshakes. */
  readonly hs: Signer;
  /** Signs usage reports. */
  readonly ur: Signer;
  /** Evidence for all clients, which does not bind a nonce. */
  readonly evidence: AttestationEvidence;
  readonly evidenceDigest: string;
  /** The number of the next report. Each call returns a new number, starting at 1. */
  ctr(): number;
}

export interface EnclaveIdentity {
  readonly net: string;
  readonly role: Role;
  readonly provider: EvidenceProvider;
  /** Resolves when the first attempt to create a keyset has ended. Never rejects. */
  readonly ready: Promise<void>;
  /** Returns a fault while evidence is missing. */
  current(): EnclaveKeyset | Fault;
  /**
   * Creates evidence that also binds a client's nonce (32 bytes). It costs the platform tens of milliseconds, so the
   * rate is limited.
   */
  quoteFor(
    keyset: EnclaveKeyset,
    nonce: Uint8Array,
    signal: AbortSignal,
  ): Promise<AttestationEvidence | Fault>;
  close(): void;
}

/** Time between keysets. A session that starts just before a new keyset still has half of the keyset's validity. */
const renewMs = (keysetSeconds * 1000) / 2;
const retryMs = 10_000;
const quoteMs = 20_000;
/** Rate limit of quotes for nonces: a burst, then half of the rate at which a TDX platform creates quotes. */
const quoteBurst = 32;
const quoteEveryMs = 100;

export function createEnclaveIdentity(deps: IdentityDeps): EnclaveIdentity {
  const { net, role, provider, clock, log } = deps;
  const closing = new AbortController();
  const takeQuoteToken = createTokenBucket(quoteBurst, quoteEveryMs, clock);
  let keyset: EnclaveKeyset | Fault = fault("ATTESTATION_UNAVAILABLE", "there is no evidence yet");
  let next: Disposable | undefined;

  async function renew(): Promise<void> {
    const made = await makeKeyset(deps, closing.signal);
    if (closing.signal.aborted) return;
    if (!isFault(made)) {
      keyset = made;
      log?.info({ keyset: made.digest, tee: provider.teeType }, "a keyset has been attested");
    } else {
      // The current keyset is used until it expires.
      if (isFault(keyset)) keyset = made;
      log?.warn({ reason: made.message }, "a new keyset could not be attested");
    }
    next = clock.after(isFault(made) ? retryMs : renewMs, () => void renew());
  }

  return {
    net,
    role,
    provider,
    ready: renew(),
    current() {
      if (isFault(keyset) || clock.now() < keyset.notAfter * 1000) return keyset;
      return fault("ATTESTATION_UNAVAILABLE", "the keyset has expired");
    },
    async quoteFor({ digest }, nonce, signal) {
      if (!takeQuoteToken()) return fault("RATE_LIMITED", "too many quotes requested");
      return quote(deps, digest, nonce, signal);
    },
    close() {
      closing.abort();
      next?.[Symbol.dispose]();
    },
  };
}

async function makeKeyset(deps: IdentityDeps, signal: AbortSignal): Promise<EnclaveKeyset | Fault> {
  const { net, role, clock } = deps;
  const [hs, ur] = [createSigner(), createSigner()];
  const notAfter = Math.floor(clock.now() / 1000) + keysetSeconds;
  const keyset = writeKeyset({ hs: hs.publicKey, ur: ur.publicKey, net, role, notAfter });
  if (keyset === undefined)
    return fault("ATTESTATION_UNAVAILABLE", "a name contains a lone surrogate");
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
  const requested = provider.quote(reportData, until).catch((error: unknown) => {
    log?.error({ err: error }, "the evidence provider failed");
    return fault("ATTESTATION_UNAVAILABLE", "the platform did not make a report");
  });
  const made = await Promise.race([requested, whenAborted(until)]);
  if (made === undefined) return fault("ATTESTATION_UNAVAILABLE", "the platform took too long");
  if (isFault(made)) return made;
  if (!(await bindsReportData(made, reportData))) {
    return fault("ATTESTATION_UNAVAILABLE", "the quote does not contain the requested report data");
  }
  if (provider.staples !== true) return made;
  // Most verifiers refuse evidence without collateral. It is better to retry soon than to use such a keyset for an
  // hour.
  if (provider.teeType === "sev-snp") return hasRevocationList(made) ? made : noRevocationList;
  return made.collateral === undefined ? noCollateral : made;
}

const noCollateral = fault("ATTESTATION_UNAVAILABLE", "Intel's collateral cannot be fetched");
const noRevocationList = fault(
  "ATTESTATION_UNAVAILABLE",
  "AMD's revocation list cannot be fetched",
);
