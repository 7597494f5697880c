import { sameBytes, toHex, type Bytes } from "./binary-text.ts";
import type { TcbInfo, TdxModuleIdentity } from "./tdx-collateral.ts";
import type { TdReport } from "./tdx-quote.ts";
import type { VerificationPolicy } from "./policy.ts";

/**
 * Returns the reason why the running module is not accepted. Intel PCS API v4, "TDX module identity": byte 1 of
 * TEE_TCB_SVN is the module's major version, whose identity is `TDX_<two hex digits>` (version 0: the identity without
 * a version). Byte 0 is compared with the levels of the identity.
 */
export function moduleFault(
  report: TdReport,
  tcbInfo: TcbInfo,
  policy: VerificationPolicy,
): string | undefined {
  const [isvsvn = 0, version = 0] = report.teeTcbSvn;
  const id = version === 0 ? undefined : `TDX_${toHex(Uint8Array.of(version)).toUpperCase()}`;
  const identity = tcbInfo.modules.find((module) => module.id?.toUpperCase() === id);
  if (identity === undefined)
    return `the TCB info does not list the module ${id ?? "without a version"}`;
  if (!sameBytes(report.mrsignerseam, identity.mrsigner))
    return "the signer of the module differs from the TCB info";
  if (!sameBytes(masked(report.seamAttributes, identity), identity.attributes)) {
    return "the attributes of the module differ from the TCB info";
  }
  if (id === undefined) return undefined;
  const level = identity.levels.find((candidate) => candidate.isvsvn <= isvsvn);
  if (level === undefined) return `the TCB info has no level for version ${isvsvn} of ${id}`;
  return statusFault(level.status, level.advisories, policy);
}

function masked(attributes: Bytes, { attributesMask }: TdxModuleIdentity): Bytes {
  return attributes.map((octet, at) => octet & (attributesMask[at] ?? 0));
}

/** Accepts only `UpToDate`, and `SWHardeningNeeded` if the policy lists all of its advisories. */
export function statusFault(
  status: string,
  advisories: readonly string[],
  policy: VerificationPolicy,
): string | undefined {
  if (status === "UpToDate") return undefined;
  const named = advisories.join(", ") || "no advisory";
  if (status !== "SWHardeningNeeded") return `${status} (${named})`;
  const accepted = policy.advisories ?? [];
  const areAccepted = advisories.length > 0 && advisories.every((id) => accepted.includes(id));
  return areAccepted ? undefined : `${status} (${named}), which the policy does not accept`;
}
