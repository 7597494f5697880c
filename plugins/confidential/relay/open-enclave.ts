/**
 * Opens a session with an enclave, for whoever asks: the gateway for itself, or for a client whose `hello` it passes on.
 * Nothing is told of a session before its signature, its keyset and its evidence have been checked.
 */
import type { Clock } from "../../../src/services/clock.ts";
import { fault, isFault, type Fault, type StreamCode } from "../protocol/fault.ts";
import { readAnswer, type Attested } from "../protocol/handshake.ts";
import type { Hello, Role } from "../protocol/hello.ts";
import { handshakeMs } from "../protocol/limits.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import { sessionReportData } from "../protocol/report-data.ts";
import { readTextFrame, type AttestationFrame } from "../protocol/text-frames.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import type { EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { VerificationReport } from "../verify/report.ts";
import type { EvidenceCache } from "./evidence-cache.ts";
import type { EnclaveLink } from "./link.ts";

export interface OpenEnclave {
  readonly link: EnclaveLink;
  /** As it came. */
  readonly attestation: AttestationFrame;
  readonly attested: Attested;
  /** `sha256:<hex>` of its evidence. */
  readonly evidenceDigest: string;
  /** What the evidence proves; never `none`. */
  readonly evidence: VerificationReport;
}

export interface OpenEnclaveDeps {
  readonly clock: Clock;
  readonly role: Role;
  readonly policyFor: (evidence: unknown) => VerificationPolicy;
  readonly verifier: EvidenceVerifier;
  readonly memory: EvidenceCache;
}

/** The enclave refused, in its own words' code, or what it showed is not good enough: then with the checks. */
export interface OpenFailure extends Fault {
  readonly evidence?: VerificationReport;
  /** It named evidence that has not been seen here: a client may have seen it elsewhere. */
  readonly isUnseen?: true;
}

/** What an enclave says is wrong, for the client: of the client's key and credit it knows nothing. */
export function enclaveCode(told: StreamCode | undefined): StreamCode {
  return told === undefined || told === "UNAUTHORIZED" || told === "INSUFFICIENT_BALANCE"
    ? "UPSTREAM_FAILED"
    : told;
}

/** `helloBytes` go on as they are. Closes the link unless the session is open. */
export async function openEnclave(
  link: EnclaveLink,
  helloBytes: Uint8Array,
  hello: Hello,
  parts: OpenEnclaveDeps,
): Promise<OpenEnclave | OpenFailure> {
  const opened = await shakeHands(link, helloBytes, hello, parts);
  if (isFault(opened)) link.close();
  return opened;
}

const noAttestation = fault("ATTESTATION_UNAVAILABLE", "the enclave showed no attestation");

async function shakeHands(
  link: EnclaveLink,
  helloBytes: Uint8Array,
  hello: Hello,
  parts: OpenEnclaveDeps,
): Promise<OpenEnclave | OpenFailure> {
  const { clock, role } = parts;
  const answer = firstText(link, clock);
  link.text(helloBytes);
  const bytes = await answer;
  if (isFault(bytes)) return bytes;
  const frame = readTextFrame(bytes);
  if (isFault(frame)) return noAttestation;
  if (frame.kind === "error") return fault(enclaveCode(frame.code), "the enclave refused");
  if (frame.kind !== "attestation") return noAttestation;
  const expected = { net: hello.network, role, now: clock.now() / 1000 };
  const attested = await readAnswer(nodeSuite, helloBytes, frame.core, frame.sig, expected);
  // Whatever is wrong with it is the enclave's fault: a code of the client's own faults would say otherwise.
  if (isFault(attested)) return fault("ATTESTATION_UNAVAILABLE", attested.message);
  const shown = await examine(frame, hello, attested, parts);
  return isFault(shown) ? shown : { link, attestation: frame, attested, ...shown };
}

/** The first text frame; anything else instead is a fault. */
function firstText(link: EnclaveLink, clock: Clock): Promise<Buffer | Fault> {
  const { promise, resolve } = Promise.withResolvers<Buffer | Fault>();
  const deadline = clock.after(handshakeMs, () =>
    resolve(fault("TIMEOUT", "the enclave did not answer in time")),
  );
  const unexpected = (): void => resolve(noAttestation);
  link.listener = {
    text: (frame) => resolve(frame),
    binary: unexpected,
    drained() {},
    ended: () => resolve(fault("UPSTREAM_FAILED", "the enclave left")),
  };
  return promise.finally(() => {
    deadline[Symbol.dispose]();
    // What follows waits for whoever uses the session.
    link.listener = undefined;
  });
}

const unseen: OpenFailure = {
  ...fault("ATTESTATION_UNAVAILABLE", "the evidence has not been seen here"),
  isUnseen: true,
};

async function examine(
  { evidence: sent, evidenceDigest: named }: AttestationFrame,
  hello: Hello,
  { keysetDigest }: Attested,
  { clock, role, policyFor, verifier, memory }: OpenEnclaveDeps,
): Promise<Pick<OpenEnclave, "evidence" | "evidenceDigest"> | OpenFailure> {
  const evidence = sent ?? (named === undefined ? undefined : memory.find(named));
  if (evidence === undefined) return unseen;
  const nonce = hello.freshness === "quote" ? hello.nonce : undefined;
  const reportData = await sessionReportData(nodeSuite, keysetDigest, nonce, role);
  const policy = policyFor(evidence);
  const report = await verifier.verify(evidence, { reportData }, policy, clock.now());
  if (report.assurance === "none") {
    return { ...fault("ATTESTATION_UNAVAILABLE", "the evidence was refused"), evidence: report };
  }
  // Evidence that passed has a canonical form.
  const digest = sent === undefined ? named : await memory.keep(sent, nonce !== undefined);
  return digest === undefined
    ? fault("ATTESTATION_UNAVAILABLE", "the evidence has no digest")
    : { evidence: report, evidenceDigest: digest };
}
