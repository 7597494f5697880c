import type { Fault } from "../protocol/fault.ts";
import type { Attested } from "../protocol/handshake.ts";
import type { Hello } from "../protocol/hello.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { createChecklist, type Checklist } from "../verify/checklist.ts";
import type { Check, VerificationReport } from "../verify/report.ts";
import { ConfidentialError, failureOfFault, type ConfidentialCode } from "./failure.ts";
import type { Settings } from "./options.ts";
import type { SessionPolicy } from "./policy.ts";
import type { StreamSocket } from "./socket.ts";
import type { WebChannel } from "./web-channel.ts";

export interface OpenSession {
  readonly socket: StreamSocket;
  readonly channel: WebChannel;
  readonly hello: Hello;
  readonly attested: Attested;
  readonly evidence: VerificationReport;
  readonly checks: readonly Check[];
  /** Parsed JSON. The gateway's offer is not signed. */
  readonly offer: unknown;
}

/** These checks precede those of the evidence. The check `session_keys` follows them. */
const checkNames = [
  "policy",
  "connection",
  "answer",
  "handshake",
  "offer",
  "evidence_given",
] as const;
export type HandshakeCheck = (typeof checkNames)[number] | "session_keys";

export interface HandshakeAttempt {
  readonly settings: Settings;
  readonly policy: SessionPolicy;
  readonly freshness: Hello["freshness"];
  readonly signal: AbortSignal;
}

export interface HandshakeProgress extends HandshakeAttempt {
  readonly checks: Checklist<HandshakeCheck>;
  readonly hello: Hello;
  readonly helloBytes: Bytes;
  readonly socket: StreamSocket;
}

export function createHandshakeChecks(): Checklist<HandshakeCheck> {
  return createChecklist<HandshakeCheck>([...checkNames, "session_keys"]);
}

export function refuse(
  { checks }: HandshakeProgress,
  name: HandshakeCheck,
  code: ConfidentialCode,
  why: string,
  evidence?: VerificationReport,
): ConfidentialError {
  checks.record(name, why);
  const all = mergeChecks(checks.list(), evidence?.checks ?? []);
  return new ConfidentialError(code, why, { checks: all, ...(evidence && { evidence }) });
}

export function refuseFault(
  progress: HandshakeProgress,
  name: HandshakeCheck,
  fault: Fault,
  evidence?: VerificationReport,
): ConfidentialError {
  const { code, message } = failureOfFault(fault);
  return refuse(progress, name, code, message, evidence);
}

/** The checks of the evidence run before the last check of the handshake. */
export function mergeChecks(
  handshake: readonly Check[],
  evidence: readonly Check[],
): readonly Check[] {
  return [...handshake.slice(0, -1), ...evidence, ...handshake.slice(-1)];
}
