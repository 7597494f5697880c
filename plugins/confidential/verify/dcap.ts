/**
 * A second verification by @phala/dcap-qvl, which follows Intel's algorithm from the quote to the platform's TCB
 * status. The library is loaded at the first quote, because it contains its own ASN.1 parser and elliptic curves. It
 * ignores revocation lists that it cannot read (version 0.3.9); therefore `crl.ts` verifies them.
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
    // From PEM, the library creates the kind of Buffer that it needs: in a browser, its own.
    const pem = `-----BEGIN CERTIFICATE-----\n${toBase64(root)}\n-----END CERTIFICATE-----\n`;
    // The library accepts any Uint8Array, although its type declares Buffer.
    const [anchor] = utils.extractCerts(new TextEncoder().encode(pem) as Buffer);
    if (anchor === undefined) return { ok: false, why: "the root certificate cannot be read" };
    const verifier = QuoteVerifier.newWithRootCa(anchor);
    // The type requires this member, but the library does not read it.
    const whole = { ...collateral, pck_crl_issuer_chain: "" };
    const verdict = verifier.verify(quote, whole, Math.floor(now / 1000));
    return { ok: true, status: verdict.status, advisories: verdict.advisory_ids };
  } catch (error) {
    return {
      ok: false,
      why: error instanceof Error ? error.message.slice(0, 200) : "the library refused the quote",
    };
  }
}
