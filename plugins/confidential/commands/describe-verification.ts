/** What `sluice connect` prints about an enclave. */
import type { Verification } from "../sealed-networks/verification.ts";
import { printable } from "./printable.ts";

/** Describes a verification for a person. */
export function describeVerification(verification: Verification): string {
  const { failedCheck, assurance, termination, machine, firmware, image, keyset } = verification;
  const { since, until, checks } = verification;
  const list = (wanted: string): string =>
    checks
      .filter(({ result }) => result === wanted)
      .map(({ name, why }) => (why === undefined ? name : `${name} (${why})`))
      .join(", ");
  const verdict =
    failedCheck !== undefined
      ? `refused: the check ${failedCheck}`
      : assurance === "simulated"
        ? "SIMULATED: no hardware attests the enclave. Only tests should accept it."
        : "verified: the answers come from an enclave that hardware attests.";
  const date = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(ms).toISOString();
  const lines = {
    machine: machine && (failedCheck === undefined ? `${assurance} ${machine}` : machine),
    firmware,
    image,
    keys: keyset,
    "ends at": termination && `the ${termination}`,
    since: date(since),
    until: until === undefined ? undefined : `${date(until) ?? ""}; checked again before`,
    passed: list("pass"),
    [failedCheck === undefined ? "accepted" : "failed"]: list("fail"),
    skipped: list("skipped"),
  };
  const shown = Object.entries(lines).filter(([, text]) => text !== undefined && text !== "");
  return [verdict, "", ...shown.map(([label, text]) => `  ${label.padEnd(12)}${text ?? ""}`)]
    .map((line) => printable(line))
    .join("\n");
}
