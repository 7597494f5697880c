/**
 * The second opinion: @phala/dcap-qvl, which follows Intel's algorithm from the quote to the platform's TCB status. It
 * is loaded at the first quote, since it brings its own ASN.1 and curves. It ignores revocation lists that it cannot
 * read (0.3.9), which is why `crl.ts` does not leave them to it.
 */
import { toBase64 } from "./binary-text.ts";
import type { Bytes } from "./binary-text.ts";
import type { TdxCollateral } from "./tdx-collateral.ts";

export type DcapVerdict =
  | { readonly ok: true; readonly status: string; readonly advisories: readonly string[] }
  | { readonly ok: false; readonly why: string };

/** `root`: DER of the root to trust. `now`: milliseconds since 1970. */
export async function verifyWithDcap(
  quote: Bytes,
  collateral: TdxCollateral,
  root: Bytes,
  now: number,
): Promise<DcapVerdict> {
  const { QuoteVerifier, utils } = await import("@phala/dcap-qvl");
  try {
    // By way of PEM the library makes the kind of Buffer that it wants, its own in a browser.
    const pem = `-----BEGIN CERTIFICATE-----\n${toBase64(root)}\n-----END CERTIFICATE-----\n`;
    // It takes any Uint8Array; its declaration is narrower.
    const [anchor] = utils.extractCerts(new TextEncoder().encode(pem) as Buffer);
    if (anchor === undefined) return { ok: false, why: "the root cannot be read" };
    const verifier = QuoteVerifier.newWithRootCa(anchor);
    // Declared as needed, never read.
    const whole = { ...collateral, pck_crl_issuer_chain: "" };
    const verdict = verifier.verify(quote, whole, Math.floor(now / 1000));
    return { ok: true, status: verdict.status, advisories: verdict.advisory_ids };
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message.slice(0, 200) : "refused" };
  }
}
