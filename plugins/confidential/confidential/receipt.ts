/** `GET /v1/confidential/receipts/{session}/{rid}`: for the key that made the request, and for administrators. */
import { refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { Confidential, Receipt } from "sluice-gateway/services";

/** base64url of 16 bytes. */
export const sessionPattern = /^[A-Za-z0-9_-]{22}$/;
export const maxRid = 9_999_999_999;
const ridPattern = /^[1-9]\d{0,9}$/;

export async function showReceipt(x: Exchange, confidential: Confidential): Promise<Reply> {
  const { session = "", rid = "" } = x.request.params;
  const isNamed = sessionPattern.test(session) && ridPattern.test(rid);
  if (!isNamed) return refuse("GATEWAY_NOT_FOUND");
  try {
    return replyWith(x, await confidential.receipt(session, Number(rid)));
  } catch {
    return refuse("GATEWAY_SERVICE_UNAVAILABLE");
  }
}

function replyWith(x: Exchange, receipt: Receipt | undefined): Reply {
  // A receipt of another key gets the same answer as a missing one.
  if (receipt === undefined || !canRead(x, receipt)) return refuse("GATEWAY_NOT_FOUND");
  const { report, sig, evidenceDigest, pricing, usedCUMilli, paidBeforeCUMilli } = receipt;
  const { session, verified, unverifiedReason } = receipt;
  return {
    status: 200,
    headers: ["content-type", "application/json", "cache-control", "private, no-cache"],
    body: JSON.stringify({
      session,
      rid: receipt.rid,
      report,
      sig,
      evidence_digest: evidenceDigest,
      pricing,
      usedCUMilli,
      paidBeforeCUMilli,
      verified,
      unverified_reason: unverifiedReason,
    }),
  };
}

function canRead(x: Exchange, { keyId, workspaceId }: Receipt): boolean {
  const principal = x.peek("principal");
  if (principal?.kind !== "key") return false;
  const { id, capabilities, workspaceId: own } = principal.key;
  return (
    id === keyId ||
    capabilities.has("platform:admin") ||
    (capabilities.has("workspace:admin") && own === workspaceId)
  );
}
