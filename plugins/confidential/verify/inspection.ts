import type { Bytes } from "./binary-text.ts";
import type { Checklist } from "./checklist.ts";
import type { VerificationPolicy } from "./policy.ts";
import type { VerificationReport } from "./report.ts";

export type Findings = Omit<VerificationReport, "verified" | "assurance" | "checks" | "teeType">;

export type CommonCheck = "image_hash" | "platform" | "report_data";

export function checkAllowLists(
  checks: Checklist<CommonCheck>,
  imageHash: string,
  platform: string | undefined,
  policy: VerificationPolicy,
): void {
  const { imageHashes, platforms } = policy;
  if (imageHashes === "any") checks.skip("image_hash", "the policy accepts any image");
  else checks.record("image_hash", isListed(imageHashes, imageHash, "image"));
  if (platforms === undefined) checks.skip("platform", "the policy accepts any machine");
  else checks.record("platform", isListed(platforms, platform, "machine"));
}

function isListed(
  list: readonly string[],
  value: string | undefined,
  what: string,
): string | undefined {
  const listed = value !== undefined && list.some((entry) => entry.toLowerCase() === value);
  return listed ? undefined : `the policy does not list the ${what} ${value ?? "(unknown)"}`;
}

/** The result for one kind of evidence, before the report data is compared and the verdict is reached. */
export interface Inspection<Name extends string> {
  readonly checks: Checklist<Name>;
  readonly findings: Findings;
  /** Undefined if the quote cannot be read. */
  readonly reportData: Bytes | undefined;
}
