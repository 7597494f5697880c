/** The member `sev_snp` of a policy document: the conditions that SEV-SNP evidence must meet. */
import { isObject } from "sluice-gateway/internal/toolkit";
import { snpProducts, snpTcbParts } from "../verify/policy.ts";
import type { SnpMinimums, SnpPolicy, SnpTcb } from "../verify/policy.ts";

export interface SevSnpMember {
  /** Minimum TCB per product, with at least one part each. `any` disables the check. */
  readonly min_tcb: SnpMinimums | "any";
  readonly require_crl: boolean;
}

/** `value`: parsed JSON or YAML. Returns a message that begins with the member's path if it is not valid. */
export function readSevSnp(value: unknown): SevSnpMember | string {
  if (!isObject(value)) return "sev_snp: must be an object";
  const unknown = Object.keys(value).find((name) => !["min_tcb", "require_crl"].includes(name));
  if (unknown !== undefined) return `sev_snp.${unknown}: is not known`;
  const { min_tcb, require_crl = true } = value;
  if (typeof require_crl !== "boolean") return "sev_snp.require_crl: must be true or false";
  if (min_tcb === "any") return { min_tcb, require_crl };
  if (!isObject(min_tcb) || Object.keys(min_tcb).length === 0) {
    return 'sev_snp.min_tcb: must name a minimum per product, or be "any"';
  }
  const minimums: Partial<Record<keyof SnpMinimums, Partial<SnpTcb>>> = {};
  for (const [name, parts] of Object.entries(min_tcb)) {
    const product = snpProducts.find((each) => each === name);
    if (product === undefined) return `sev_snp.min_tcb.${name}: is not known`;
    const minimum = readMinimum(parts);
    if (typeof minimum === "string") return `sev_snp.min_tcb.${name}${minimum}`;
    minimums[product] = minimum;
  }
  return { min_tcb: minimums, require_crl };
}

function readMinimum(value: unknown): Partial<SnpTcb> | string {
  // A minimum without parts would silently accept everything.
  if (!isObject(value) || Object.keys(value).length === 0) return ": must name a part";
  const minimum: Partial<Record<keyof SnpTcb, number>> = {};
  for (const [name, level] of Object.entries(value)) {
    const part = snpTcbParts.find((each) => each === name);
    if (part === undefined) return `.${name}: is not known`;
    if (typeof level !== "number" || !Number.isInteger(level) || level < 0 || level > 255) {
      return `.${name}: must be a whole number from 0 to 255`;
    }
    minimum[part] = level;
  }
  return minimum;
}

export function snpPolicyOf({ min_tcb, require_crl }: SevSnpMember): SnpPolicy {
  return { minTcb: min_tcb, requireCrl: require_crl };
}
