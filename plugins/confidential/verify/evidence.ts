/** Evidence as it travels in the `attestation` frame, and how it is read from whoever sent it. */
import { fromBase64 } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import type { TdxCollateral } from "./tdx-collateral.ts";

export type TeeType = "tdx" | "sev-snp" | "simulated";

/** confidential-stream.md, 1.2: the member `evidence` of the frame `attestation`. */
export interface AttestationEvidence {
  readonly tee_type: TeeType;
  /** Standard base64: a TDX quote or a SEV-SNP report. */
  readonly quote: string;
  /** SEV-SNP: the certificate table, standard base64. */
  readonly aux?: string;
  /** TDX: needed, since a verifier fetches nothing. */
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
  /** Not looked at yet. */
  readonly collateral: unknown;
}

/** Characters of base64. TDX quotes are under 10 kB, SEV-SNP certificate tables under 16 kB. */
const maxBase64Length = 131_072;

/** What is wrong as text, or the evidence with its bytes. `value`: parsed JSON. */
export function readEvidence(value: unknown): ParsedEvidence | string {
  if (typeof value !== "object" || value === null) return "the evidence is missing";
  // An object from JSON; each member is looked at below.
  const { tee_type, quote, aux, collateral, simulated } = value as Record<string, unknown>;
  if (tee_type !== "tdx" && tee_type !== "sev-snp" && tee_type !== "simulated") {
    return "unknown tee_type";
  }
  if ((tee_type === "simulated") !== (simulated === true)) {
    return "tee_type and simulated contradict each other";
  }
  const quoteBytes = readText(quote);
  if (quoteBytes === undefined) return "quote is not base64 of a permitted length";
  const auxBytes = aux === undefined ? undefined : readText(aux);
  if (aux !== undefined && auxBytes === undefined) {
    return "aux is not base64 of a permitted length";
  }
  return { teeType: tee_type, quote: quoteBytes, aux: auxBytes, collateral };
}

function readText(value: unknown): Bytes | undefined {
  if (typeof value !== "string" || value.length > maxBase64Length) return undefined;
  return fromBase64(value);
}
