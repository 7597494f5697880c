import { isObject } from "sluice-gateway/internal/toolkit";
import { fromBase64, type Bytes } from "./binary-text.ts";
import type { TdxCollateral } from "./tdx-collateral.ts";

export type TeeType = "tdx" | "sev-snp" | "simulated";

/** The member `evidence` of the frame `attestation` (confidential-stream.md, 1.2). */
export interface AttestationEvidence {
  readonly tee_type: TeeType;
  /** TDX quote or SEV-SNP report, in standard base64. */
  readonly quote: string;
  /** SEV-SNP: the certificate table, in standard base64. */
  readonly aux?: string;
  /** TDX: Intel's collateral. It is required, because verifiers do not fetch it. */
  readonly collateral?: TdxCollateral;
  readonly event_log?: unknown;
  readonly gpu?: unknown;
  /** Present and true exactly when `tee_type` is `simulated`. */
  readonly simulated?: boolean;
}

export interface ParsedEvidence {
  readonly teeType: TeeType;
  readonly quote: Bytes;
  readonly aux: Bytes | undefined;
  /** Parsed JSON that has not been validated. */
  readonly collateral: unknown;
}

/** Maximum length in characters. TDX quotes have less than 10 kB, SEV-SNP certificate tables less than 16 kB. */
const maxBase64Length = 131_072;

/** Returns a text with the reason if the evidence is invalid. `value`: parsed JSON. */
export function readEvidence(value: unknown): ParsedEvidence | string {
  if (!isObject(value)) return "the evidence is missing";
  const { tee_type, quote, aux, collateral, simulated } = value;
  if (tee_type !== "tdx" && tee_type !== "sev-snp" && tee_type !== "simulated") {
    return 'unknown tee_type: expected "tdx", "sev-snp" or "simulated"';
  }
  if ((tee_type === "simulated") !== (simulated === true)) {
    return 'simulated must be true if tee_type is "simulated", and only then';
  }
  const quoteBytes = readText(quote);
  if (quoteBytes === undefined) return "quote is not base64 of an allowed length";
  const auxBytes = aux === undefined ? undefined : readText(aux);
  if (aux !== undefined && auxBytes === undefined) {
    return "aux is not base64 of an allowed length";
  }
  return { teeType: tee_type, quote: quoteBytes, aux: auxBytes, collateral };
}

function readText(value: unknown): Bytes | undefined {
  if (typeof value !== "string" || value.length > maxBase64Length) return undefined;
  return fromBase64(value);
}
