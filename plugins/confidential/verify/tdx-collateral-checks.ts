import type { Bytes } from "./binary-text.ts";
import { chainFault, type TrustAnchors } from "./chain.ts";
import type { Certificate } from "./certificate.ts";
import { revocationListFault } from "./crl.ts";
import type { VerificationPolicy } from "./policy.ts";
import { isEcdsa } from "./signature.ts";
import type { TdxChecklist } from "./tdx-checks.ts";
import type { ParsedCollateral } from "./tdx-collateral.ts";
import type { TdxQuote } from "./tdx-quote.ts";

const maxCollateralAgeMs = 30 * 24 * 3_600_000;

/** The chain has two certificates: the signer of TCB info and QE identity, and the root. */
const signerChainLength = 2;

export async function checkSigners(
  checks: TdxChecklist,
  read: ParsedCollateral,
  anchors: TrustAnchors,
  now: number,
): Promise<void> {
  const { text, tcbInfoChain, tcbInfoSignature, qeIdentityChain, qeIdentitySignature } = read;
  const fault = async (
    chain: readonly Certificate[],
    signature: Bytes,
    signedText: string,
  ): Promise<string | undefined> => {
    const chainProblem = await chainFault(chain, signerChainLength, anchors, now);
    const signer = chain[0];
    if (chainProblem !== undefined || signer === undefined) return chainProblem;
    const message = new TextEncoder().encode(signedText);
    const isSigned = await isEcdsa("p256", signer.publicKey, signature, message);
    return isSigned ? undefined : `the signature of "${signer.commonName}" is invalid`;
  };
  const tcbInfoFault = await fault(tcbInfoChain, tcbInfoSignature, text.tcb_info);
  checks.record("tcb_info_signature", tcbInfoFault);
  const identityFault = await fault(qeIdentityChain, qeIdentitySignature, text.qe_identity);
  checks.record("qe_identity_signature", identityFault);
}

/**
 * The root's list revokes authorities and signers, and the PCK authority's list revokes machines. Both lists must be
 * valid.
 */
export async function checkRevocation(
  checks: TdxChecklist,
  quote: TdxQuote,
  read: ParsedCollateral,
  now: number,
): Promise<void> {
  const [pck, authority, root] = quote.pckChain;
  const { rootCrl, pckCrl } = read;
  const byRoot = checks.record("root_crl", await revocationListFault(rootCrl, root, now));
  const byAuthority = checks.record("pck_crl", await revocationListFault(pckCrl, authority, now));
  if (!byRoot || !byAuthority) return;
  const underRoot = [authority, root, ...read.tcbInfoChain, ...read.qeIdentityChain];
  const isRevoked =
    underRoot.some((certificate) => certificate && rootCrl?.revoked.has(certificate.serial)) ||
    (pck !== undefined && pckCrl?.revoked.has(pck.serial) === true);
  checks.record("revocation", isRevoked ? "a certificate has been revoked" : undefined);
}

export function checkCollateral(
  checks: TdxChecklist,
  { tcbInfo, qeIdentity }: ParsedCollateral,
  policy: VerificationPolicy,
  now: number,
): void {
  const issued = [tcbInfo, qeIdentity];
  const isFuture = issued.some(({ issueDate }) => now < issueDate);
  const isPast = issued.some(({ nextUpdate }) => now >= nextUpdate);
  const dates = isFuture
    ? "the collateral was issued in the future"
    : isPast
      ? "the collateral has expired"
      : undefined;
  checks.record("collateral_dates", dates);
  const maxAge = policy.maxCollateralAgeMs ?? maxCollateralAgeMs;
  const isOld = issued.some(({ issueDate }) => now - issueDate > maxAge);
  checks.record("collateral_age", isOld ? "the collateral was issued too long ago" : undefined);
  const minimum = policy.minTcbEvaluation;
  if (minimum === undefined) {
    return checks.skip("tcb_evaluation", "the policy has no minimum TCB evaluation number");
  }
  const isBehind = issued.some(({ tcbEvaluationDataNumber: number }) => number < minimum);
  checks.record(
    "tcb_evaluation",
    isBehind ? `the TCB evaluation number is below the minimum ${minimum}` : undefined,
  );
}

export function evaluationNumber({ tcbInfo, qeIdentity }: ParsedCollateral): number {
  return Math.min(tcbInfo.tcbEvaluationDataNumber, qeIdentity.tcbEvaluationDataNumber);
}

export function earliestExpiry(
  quote: TdxQuote,
  read: ParsedCollateral,
  policy: VerificationPolicy,
): number {
  const { tcbInfo, qeIdentity, rootCrl, pckCrl } = read;
  const maxAge = policy.maxCollateralAgeMs ?? maxCollateralAgeMs;
  const chains = [quote.pckChain, read.tcbInfoChain, read.qeIdentityChain].flat();
  return Math.min(
    ...chains.map(({ notAfter }) => notAfter),
    ...[tcbInfo, qeIdentity, rootCrl, pckCrl].map((item) => item?.nextUpdate ?? Infinity),
    ...[tcbInfo, qeIdentity].map(({ issueDate }) => issueDate + maxAge),
  );
}
