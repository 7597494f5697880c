/** Real evidence from ../shared, which is not part of the repository, and helpers for reading reports. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readPem } from "../../../../plugins/confidential/verify/certificate.ts";
import type { AttestationEvidence } from "../../../../plugins/confidential/verify/evidence.ts";
import type { VerificationReport } from "../../../../plugins/confidential/verify/report.ts";
import type { TdxCollateral } from "../../../../plugins/confidential/verify/tdx-collateral.ts";
import { writeTable } from "./snp-platform.ts";

const folder = fileURLToPath(new URL("../../../../../shared/fixtures/quotes/", import.meta.url));

export const skipWithoutShared: string | false =
  process.env["CI"] !== "true" && !existsSync(folder) ? "needs ../shared" : false;

export function realBytes(name: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(readFileSync(`${folder}${name}`));
}

export function realText(name: string): string {
  return readFileSync(`${folder}${name}`, "utf8");
}

export interface RealTdx {
  readonly quote: Uint8Array<ArrayBuffer>;
  readonly collateral: TdxCollateral;
  /** Milliseconds since 1970, within the collateral's validity. */
  readonly now: number;
  readonly reportData: Uint8Array;
}

/** A version 4 quote of an up-to-date platform, with its collateral of June 2025. */
export function realTdx(): RealTdx {
  const quote = realBytes("tdx_quote");
  const collateral = JSON.parse(realText("tdx_quote_collateral.json")) as TdxCollateral;
  const reportData = quote.slice(48 + 520, 48 + 584);
  return { quote, collateral, now: Date.UTC(2025, 5, 20), reportData };
}

/** A version 5 quote of an outdated platform, with its collateral of February 2026. */
export function outdatedTdx(): RealTdx {
  const quote = realBytes("tdx_quote_outdated");
  const collateral = JSON.parse(realText("tdx_quote_outdated_collateral.json")) as TdxCollateral;
  const reportData = quote.slice(54 + 520, 54 + 584);
  return { quote, collateral, now: Date.UTC(2026, 1, 19), reportData };
}

export function tdxEvidence(quote: Uint8Array, collateral?: TdxCollateral): AttestationEvidence {
  const text = Buffer.from(quote).toString("base64");
  return { tee_type: "tdx", quote: text, ...(collateral && { collateral }) };
}

/** A SEV-SNP report of a debuggable guest, with the certificates of its chip. */
export function realSnp(): AttestationEvidence {
  const [ask, ark] = readPem(realText("snp_milan.testcer")) ?? [];
  const vcek = realBytes("snp_vcek.testcer");
  const table = writeTable({ vcek, ask: ask?.raw, ark: ark?.raw });
  const quote = Buffer.from(realBytes("snp_attestation.bin")).toString("base64");
  return { tee_type: "sev-snp", quote, aux: Buffer.from(table).toString("base64") };
}

export function failures(report: VerificationReport): readonly string[] {
  return report.checks.filter(({ result }) => result === "fail").map(({ name }) => name);
}

export function resultOf(report: VerificationReport, name: string): string | undefined {
  return report.checks.find((check) => check.name === name)?.result;
}
