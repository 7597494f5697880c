/** Simulated evidence is marked twice: by the name of the root, and in a register of the quote. */
import { fromBase64, joinBytes, sha256Hex, toHex, type Bytes } from "./binary-text.ts";
import type { TrustAnchors } from "./chain.ts";
import { readCertificate } from "./certificate.ts";
import type { VerificationPolicy } from "./policy.ts";

export const simulatedRootName = "SIMULATED - NOT A TEE";

/**
 * RTMR3 of simulated quotes: 48 zero bytes, extended once with the SHA-384 of the name in the same way as the TDX
 * module extends registers.
 */
export async function simulatedMarker(): Promise<Bytes> {
  const event = await sha384(new TextEncoder().encode(simulatedRootName));
  return sha384(joinBytes(new Uint8Array(48), event));
}

export async function isMarked(rtmr3: string | undefined): Promise<boolean> {
  return rtmr3 === toHex(await simulatedMarker());
}

/** Returns the test roots of the policy, or a text with the reason why there are none. */
export async function simulatedAnchors(policy: VerificationPolicy): Promise<TrustAnchors | string> {
  if (policy.allowSimulated !== true) return "simulated evidence is not allowed";
  const anchors = new Set<string>();
  for (const text of policy.simulatedRoots ?? []) {
    const der = fromBase64(text);
    const root = der && readCertificate(der);
    if (root?.commonName === simulatedRootName) anchors.add(await sha256Hex(root.raw));
  }
  return anchors.size > 0 ? anchors : `the policy has no root named "${simulatedRootName}"`;
}

async function sha384(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-384", bytes));
}
