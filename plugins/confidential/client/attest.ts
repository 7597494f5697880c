/**
 * Verifies the enclave's answer to `hello` in a strict order: the frame, its signature, the price offer, the evidence,
 * and the session keys.
 */
import { isObject } from "sluice-gateway/internal/toolkit";
import { isFault } from "../protocol/fault.ts";
import { clientKeys, readAnswer, type Attested } from "../protocol/handshake.ts";
import { sessionReportData, evidenceDigest } from "../protocol/report-data.ts";
import { isCount } from "../protocol/strict-json.ts";
import type { Ephemeral } from "../protocol/suite.ts";
import { readTextFrame, type AttestationFrame } from "../protocol/text-frames.ts";
import type { VerificationReport } from "../verify/report.ts";
import {
  mergeChecks,
  refuse,
  refuseFault,
  type OpenSession,
  type HandshakeProgress,
} from "./handshake-attempt.ts";
import { closeCodeOf, failureOfClose, ConfidentialError, failureOfErrorFrame } from "./failure.ts";
import { webSuite } from "./web-crypto.ts";
import { maxTextBytes } from "../protocol/limits.ts";
import { fetchJson } from "./fetch-json.ts";
import type { Settings } from "./options.ts";

/** Sends `hello` and verifies the answer. Returns and rejects like `openSession`. */
export async function attest(
  progress: HandshakeProgress,
  ephemeral: Ephemeral,
): Promise<OpenSession | "unknownKeyset"> {
  const { checks, hello, helloBytes, socket, settings, freshness, signal } = progress;
  socket.send(new TextDecoder().decode(helloBytes));
  const frame = await receiveAttestation(progress);
  const attested = await checkHandshake(progress, frame);
  checkOffer(progress, frame);
  const { memory, endpoint } = settings;
  if (freshness === "cached" && !memory.keysets.has(attested.keysetDigest)) {
    socket.close(closeCodeOf("CONNECTION_CLOSED"));
    return "unknownKeyset";
  }
  const given = await resolveEvidence(frame, settings, signal);
  if (typeof given === "string") {
    throw refuse(progress, "evidence_given", "ATTESTATION_UNAVAILABLE", given);
  }
  checks.record("evidence_given", undefined);
  const evidence = await checkEvidence(progress, attested, given.evidence);
  const keys = await clientKeys(webSuite, ephemeral, attested);
  if (isFault(keys)) throw refuseFault(progress, "session_keys", keys, evidence);
  checks.record("session_keys", undefined);
  const { keyset, keysetDigest, th } = attested;
  if (freshness === "quote") memory.keysets.add(keysetDigest, endpoint, keyset.notAfter);
  else memory.evidence.add(endpoint, given.digest, given.evidence);
  const channel = await settings.openChannel({ end: "client", keys, th, pad: hello.pad });
  const all = mergeChecks(checks.list(), evidence.checks);
  return { socket, channel, hello, attested, evidence, checks: all, offer: frame.offer };
}

async function receiveAttestation(progress: HandshakeProgress): Promise<AttestationFrame> {
  const message = await progress.socket.next();
  if (message.kind === "closed") {
    const { code, message: why } = failureOfClose(message.code);
    throw refuse(progress, "answer", code, why);
  }
  if (message.kind === "binary") {
    throw refuse(
      progress,
      "answer",
      "BAD_FRAME",
      "expected the attestation, got an encrypted frame",
    );
  }
  const frame = readTextFrame(message.bytes);
  if (isFault(frame)) throw refuseFault(progress, "answer", frame);
  if (frame.kind === "error") {
    const { code, message: why } = failureOfErrorFrame(frame.code);
    throw refuse(progress, "answer", code, why);
  }
  if (frame.kind !== "attestation") {
    throw refuse(progress, "answer", "BAD_FRAME", `expected the attestation, got ${frame.kind}`);
  }
  progress.checks.record("answer", undefined);
  return frame;
}

async function checkHandshake(
  progress: HandshakeProgress,
  frame: AttestationFrame,
): Promise<Attested> {
  const { settings, hello, helloBytes } = progress;
  const attested = await readAnswer(webSuite, helloBytes, frame.core, frame.sig, {
    net: hello.network,
    role: hello.termination,
    now: Math.floor(settings.clock.now() / 1000),
  });
  if (isFault(attested)) throw refuseFault(progress, "handshake", attested);
  progress.checks.record("handshake", undefined);
  return attested;
}

/** The offer is not binding (the signed report is), but a session is not opened if the offer is already too high. */
function checkOffer(progress: HandshakeProgress, { offer }: AttestationFrame): void {
  const { maxCoefficient } = progress.settings;
  const coefficient = isObject(offer) ? offer["coefficient"] : undefined;
  if (maxCoefficient === undefined) {
    progress.checks.skip("offer", "maxCoefficient is not set");
  } else if (!isCount(coefficient)) {
    progress.checks.skip("offer", "the offer has no coefficient; the report of each answer has it");
  } else if (coefficient > maxCoefficient) {
    const why = `the coefficient ${coefficient} is above the maximum ${maxCoefficient}`;
    throw refuse(progress, "offer", "PRICE_ABOVE_MAX", why);
  } else progress.checks.record("offer", undefined);
}

async function checkEvidence(
  progress: HandshakeProgress,
  { keysetDigest, keyset }: Attested,
  evidence: unknown,
): Promise<VerificationReport> {
  const { settings, policy, hello, freshness } = progress;
  const { clock, collateral, memory } = settings;
  const nonce = freshness === "quote" ? hello.nonce : undefined;
  const reportData = await sessionReportData(webSuite, keysetDigest, nonce, keyset.role);
  const isBare = isObject(evidence) && evidence["collateral"] === undefined;
  const whole = isBare && collateral !== undefined ? { ...evidence, collateral } : evidence;
  const teeType = isObject(evidence) ? evidence["tee_type"] : undefined;
  const accepted = policy.policyFor(teeType);
  const report = await memory.verifier.verify(whole, { reportData }, accepted, clock.now());
  if (report.assurance !== "none") return report;
  const failed = report.checks.filter(({ result }) => result === "fail");
  const why = failed.map(({ name, why: reason }) => `${name}: ${reason ?? "failed"}`).join("; ");
  throw new ConfidentialError("EVIDENCE_REFUSED", `the evidence is refused: ${why}`, {
    checks: mergeChecks(progress.checks.list(), report.checks),
    evidence: report,
  });
}

interface ResolvedEvidence {
  /** Parsed JSON, not verified yet. */
  readonly evidence: unknown;
  readonly digest: string;
}

/**
 * Returns the evidence, or a text with the reason why there is none. If the frame has a digest, the evidence matches
 * it, so the server that it was fetched from need not be trusted.
 */
async function resolveEvidence(
  frame: AttestationFrame,
  settings: Settings,
  signal: AbortSignal,
): Promise<ResolvedEvidence | string> {
  const { evidence, evidenceDigest: expected } = frame;
  const found =
    evidence === undefined && expected !== undefined
      ? await findEvidence(expected, settings, signal)
      : evidence;
  if (found === undefined) return "the evidence could not be fetched by its digest";
  const digest = await evidenceDigest(webSuite, found);
  if (digest === undefined) return "the evidence cannot be converted to canonical JSON";
  if (expected !== undefined && expected !== digest) {
    return "the evidence does not match the digest in the attestation frame";
  }
  return { evidence: found, digest };
}

async function findEvidence(
  digest: string,
  { base, memory, headers }: Settings,
  signal: AbortSignal,
): Promise<unknown> {
  const known = memory.evidence.get(digest);
  if (known !== undefined) return known;
  const url = `${base}/v1/confidential/evidence/${digest.slice("sha256:".length)}`;
  return fetchJson(url, maxTextBytes, { signal, ...(headers && { headers }) });
}
