import type { Check, ConfidentialError, Session, VerificationReport } from "../client/client.ts";

/** The result of the last verification of a model's enclave. Times are in milliseconds since 1970. */
export interface Verification {
  readonly gateway: string;
  readonly network: string;
  readonly model: string;
  /** The check that failed, and why. Undefined if the enclave is accepted. */
  readonly failedCheck?: string;
  /** `tdx`, `sev-snp` or `simulated`; `none` if a check failed. */
  readonly assurance: string;
  readonly termination?: string;
  readonly image?: string;
  /** The machine: PPID (TDX) or CHIP_ID (SEV-SNP) in lower-case hex. */
  readonly machine?: string;
  readonly firmware?: string;
  /** Digest of the enclave's keys: `sha256:<hex>`. */
  readonly keyset?: string;
  /** Time since which the enclave with these keys has been accepted. */
  readonly since?: number;
  /** Time at which it must have been verified again. */
  readonly until?: number;
  readonly checks: readonly Check[];
}

type VerifiedSession = Pick<
  Session,
  "network" | "model" | "termination" | "assurance" | "evidence" | "keyset" | "checks" | "expiresAt"
>;

export function verificationOf(
  session: VerifiedSession,
  gateway: string,
  since: number,
): Verification {
  const { network, model, termination, assurance, evidence, keyset, checks } = session;
  return {
    gateway,
    network,
    model,
    assurance,
    termination,
    ...factsOf(evidence),
    keyset,
    since,
    until: validUntil(session),
    checks,
  };
}

export function factsOf(
  evidence: VerificationReport | undefined,
): Pick<Verification, "image" | "machine" | "firmware"> {
  const { imageHash, platform, tcb } = evidence ?? {};
  return {
    ...(imageHash !== undefined && { image: imageHash }),
    ...(platform !== undefined && { machine: platform }),
    ...(tcb !== undefined && { firmware: tcb.status }),
  };
}

export function validUntil({
  expiresAt,
  evidence,
}: Pick<Session, "expiresAt" | "evidence">): number {
  return Math.min(expiresAt, evidence.validUntil ?? Infinity);
}

/** Returns the check that failed, and why. `error`: why a session could not be opened. */
export function failedCheckOf({ checks = [], code, message }: ConfidentialError): string {
  const failed = checks.filter(({ result }) => result === "fail");
  // This check also fails if simulated evidence is accepted, so another one is the reason if there is one.
  const { name, why } = failed.find((one) => one.name !== "not_simulated") ?? failed[0] ?? {};
  return name === undefined ? `${code}: ${message}` : `${name}: ${why ?? message}`;
}

/** Returns false if the gateway has refused for a reason that says nothing about the enclave. */
export function isVerdict({ code }: ConfidentialError): boolean {
  return !transient.has(code);
}

const transient: ReadonlySet<ConfidentialError["code"]> = new Set([
  "CONNECTION_CLOSED",
  "CONNECTION_FAILED",
  "MODEL_NOT_AVAILABLE",
  "NETWORK_NOT_AVAILABLE",
  "INSUFFICIENT_BALANCE",
  "UNAUTHORIZED",
  "RATE_LIMITED",
  "UPSTREAM_FAILED",
  "TIMEOUT",
]);

export function verifiedHeader({ assurance, image, keyset, checks }: Verification): string {
  const names = (wanted: Check["result"]): string =>
    checks.flatMap(({ name, result }) => (result === wanted ? name : [])).join(" ");
  return [
    assurance,
    `image=${image ?? "unknown"}`,
    `keyset=${keyset ?? "unknown"}`,
    `passed="${names("pass")}"`,
    `skipped="${names("skipped")}"`,
  ].join("; ");
}
