import { checkText } from "../client/check-meanings.ts";
import type { Verification } from "../sealed-networks/verification.ts";
import { printable } from "./printable.ts";

export function describeVerification(verification: Verification): string {
  const { failedCheck, assurance, termination, machine, firmware, image, keyset } = verification;
  const { since, until, checks } = verification;
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
  };
  const labels = {
    pass: "passed",
    fail: failedCheck === undefined ? "accepted" : "failed",
    skipped: "skipped",
  };
  const listed = (["pass", "fail", "skipped"] as const).flatMap((wanted) =>
    checks
      .filter(({ result }) => result === wanted)
      .map((check) => [labels[wanted], `${check.name}: ${checkText(check)}`] as const),
  );
  const shown = [...Object.entries(lines), ...listed].filter(([, text]) => text !== undefined);
  return [verdict, "", ...shown.map(([label, text]) => `  ${label.padEnd(12)}${text ?? ""}`)]
    .map((line) => printable(line))
    .join("\n");
}
