/**
 * Opens a session for the gateway itself, or for a client whose `hello` the gateway forwards. A session is returned
 * only after its signature, its keyset and its evidence have been checked.
 */
import type { Clock } from "sluice-gateway/plugin";
import type { CallRecords, Price } from "sluice-gateway/services";
import { fault, isFault, type Fault } from "../protocol/fault.ts";
import { readAnswer, type Attested } from "../protocol/handshake.ts";
import type { Hello, Role } from "../protocol/hello.ts";
import { handshakeMs, maxAttestationBytes } from "../protocol/limits.ts";
import { nodeSuite } from "../protocol/node-crypto.ts";
import { sessionReportData } from "../protocol/report-data.ts";
import { readTextFrame, type AttestationFrame } from "../protocol/text-frames.ts";
import type { VerificationPolicy } from "../verify/policy.ts";
import type { EvidenceVerifier } from "../verify/evidence-verifier.ts";
import type { VerificationReport } from "../verify/report.ts";
import type { EvidenceCache } from "./evidence-cache.ts";
import { codeForClient } from "./enclave-errors.ts";
import type { EnclaveLink } from "./link.ts";

export interface OpenEnclave {
  readonly link: EnclaveLink;
  readonly attestation: AttestationFrame;
  readonly attested: Attested;
  readonly evidenceDigest: string;
  /** The assurance is never `none`. */
  readonly evidence: VerificationReport;
}

export interface AttestedUpstream extends OpenEnclave {
  /** Undefined for the gateway's own enclave: its calls to the model are recorded as ordinary chat completions. */
  readonly records?: CallRecords | undefined;
  /** For log lines. Undefined for the gateway's own enclave. */
  readonly workerId: string | undefined;
  /** The price that is offered and reserved. A report with a lower coefficient is charged at the lower one. */
  readonly price: Price;
  /**
   * `isHealthy`: false if the enclave failed, true if it did not. Undefined if the enclave refused the client's input,
   * which does not show whether the enclave is healthy.
   */
  onEnd(isHealthy: boolean | undefined): void;
}

/** An open session, whose attestation has been sent to the client. */
export type UpstreamSession = Omit<AttestedUpstream, "attestation">;

export interface OpenEnclaveDeps {
  readonly clock: Clock;
  readonly role: Role;
  readonly policyFor: (evidence: unknown) => VerificationPolicy;
  readonly verifier: EvidenceVerifier;
  readonly evidenceCache: EvidenceCache;
}

/** The enclave refused, with its own code, or its attestation was refused. */
export interface OpenFailure extends Fault {
  /** The checks of evidence that was refused. */
  readonly evidence?: VerificationReport;
  /**
   * The enclave named evidence by a digest that is not in the cache. The client may have received it through another
   * gateway.
   */
  readonly isUnseen?: true;
}

/** `helloBytes`: forwarded unchanged. Closes the link if no session could be opened. */
export async function openEnclave(
  link: EnclaveLink,
  helloBytes: Uint8Array,
  hello: Hello,
  deps: OpenEnclaveDeps,
): Promise<OpenEnclave | OpenFailure> {
  const opened = await shakeHands(link, helloBytes, hello, deps);
  if (isFault(opened)) link.close();
  return opened;
}

const noAttestation = fault("ATTESTATION_UNAVAILABLE", "the enclave showed no attestation");

async function shakeHands(
  link: EnclaveLink,
  helloBytes: Uint8Array,
  hello: Hello,
  deps: OpenEnclaveDeps,
): Promise<OpenEnclave | OpenFailure> {
  const { clock, role } = deps;
  const answer = firstText(link, clock);
  link.text(helloBytes);
  const bytes = await answer;
  if (isFault(bytes)) return bytes;
  if (bytes.length > maxAttestationBytes) return noAttestation;
  const frame = readTextFrame(bytes);
  if (isFault(frame)) return noAttestation;
  if (frame.kind === "error") return fault(codeForClient(frame.code), "the enclave refused");
  if (frame.kind !== "attestation") return noAttestation;
  const expected = { net: hello.network, role, now: clock.now() / 1000 };
  const attested = await readAnswer(nodeSuite, helloBytes, frame.core, frame.sig, expected);
  // The enclave causes every such fault, so the code must not be one of those for mistakes of the client.
  if (isFault(attested)) return fault("ATTESTATION_UNAVAILABLE", attested.message);
  const verified = await verifyEvidence(frame, hello, attested, deps);
  return isFault(verified) ? verified : { link, attestation: frame, attested, ...verified };
}

/** Anything else that arrives before the first text frame is a fault. */
function firstText(link: EnclaveLink, clock: Clock): Promise<Buffer | Fault> {
  const { promise, resolve } = Promise.withResolvers<Buffer | Fault>();
  const deadline = clock.after(handshakeMs, () =>
    resolve(fault("TIMEOUT", "the enclave did not answer in time")),
  );
  const unexpected = (): void => resolve(noAttestation);
  link.listener = {
    onText: (frame) => resolve(frame),
    onBinary: unexpected,
    onDrain() {},
    onEnd: () => resolve(fault("UPSTREAM_FAILED", "the enclave closed the connection")),
  };
  return promise.finally(() => {
    deadline[Symbol.dispose]();
    // Later frames are queued until the session's user sets its own listener.
    link.listener = undefined;
  });
}

const unseen: OpenFailure = {
  ...fault("ATTESTATION_UNAVAILABLE", "the evidence with this digest is not known here"),
  isUnseen: true,
};

async function verifyEvidence(
  { evidence: sent, evidenceDigest: named }: AttestationFrame,
  hello: Hello,
  { keysetDigest }: Attested,
  { clock, role, policyFor, verifier, evidenceCache }: OpenEnclaveDeps,
): Promise<Pick<OpenEnclave, "evidence" | "evidenceDigest"> | OpenFailure> {
  const evidence = sent ?? (named === undefined ? undefined : evidenceCache.find(named));
  if (evidence === undefined) return unseen;
  const nonce = hello.freshness === "quote" ? hello.nonce : undefined;
  const reportData = await sessionReportData(nodeSuite, keysetDigest, nonce, role);
  const policy = policyFor(evidence);
  const report = await verifier.verify(evidence, { reportData }, policy, clock.now());
  if (report.assurance === "none") {
    return { ...fault("ATTESTATION_UNAVAILABLE", "the evidence was refused"), evidence: report };
  }
  // Evidence that was accepted always has a canonical form.
  const digest = sent === undefined ? named : await evidenceCache.keep(sent, nonce !== undefined);
  return digest === undefined
    ? fault("ATTESTATION_UNAVAILABLE", "the evidence has no digest")
    : { evidence: report, evidenceDigest: digest };
}
