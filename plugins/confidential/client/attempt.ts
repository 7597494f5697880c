/** An attempt to open a session: what it has so far, and how it says where it failed. */
import type { Fault } from "../protocol/fault.ts";
import type { Attested } from "../protocol/handshake.ts";
import type { Hello } from "../protocol/hello.ts";
import type { Bytes } from "../verify/binary-text.ts";
import { createChecklist } from "../verify/checklist.ts";
import type { Checklist } from "../verify/checklist.ts";
import type { Check, VerificationReport } from "../verify/report.ts";
import { ConfidentialError, failureOf } from "./failure.ts";
import type { ConfidentialCode } from "./failure.ts";
import type { Settings } from "./options.ts";
import type { SessionPolicy } from "./policy.ts";
import type { StreamSocket } from "./socket.ts";
import type { WebChannel } from "./web-channel.ts";

/** A session whose every check has passed. */
export interface OpenSession {
  readonly socket: StreamSocket;
  readonly channel: WebChannel;
  readonly hello: Hello;
  readonly attested: Attested;
  readonly evidence: VerificationReport;
  /** Of the handshake and the evidence, in their order. */
  readonly checks: readonly Check[];
  /** The gateway's, which nobody signed; parsed JSON. */
  readonly offer: unknown;
}

/** Before the evidence's own checks, and after them. */
const checkNames = [
  "policy",
  "connection",
  "answer",
  "handshake",
  "offer",
  "evidence_given",
] as const;
export type CheckName = (typeof checkNames)[number] | "session_keys";

export interface Attempt {
  readonly settings: Settings;
  readonly policy: SessionPolicy;
  readonly freshness: Hello["freshness"];
  readonly signal: AbortSignal;
}

/** What one attempt has so far. */
export interface Progress extends Attempt {
  readonly checks: Checklist<CheckName>;
  readonly hello: Hello;
  readonly helloBytes: Bytes;
  readonly socket: StreamSocket;
}

export function createHandshakeChecks(): Checklist<CheckName> {
  return createChecklist<CheckName>([...checkNames, "session_keys"]);
}

export function refuse(
  { checks }: Progress,
  name: CheckName,
  code: ConfidentialCode,
  why: string,
  evidence?: VerificationReport,
): ConfidentialError {
  checks.record(name, why);
  const all = merge(checks.list(), evidence?.checks ?? []);
  return new ConfidentialError(code, why, { checks: all, ...(evidence && { evidence }) });
}

export function refuseFault(
  progress: Progress,
  name: CheckName,
  fault: Fault,
  evidence?: VerificationReport,
): ConfidentialError {
  const { code, message } = failureOf(fault);
  return refuse(progress, name, code, message, evidence);
}

/** The checks of the evidence stand before the last of the handshake, as they were made. */
export function merge(handshake: readonly Check[], evidence: readonly Check[]): readonly Check[] {
  return [...handshake.slice(0, -1), ...evidence, ...handshake.slice(-1)];
}
