/** What anybody may read: evidence by its digest, and the signed policy. */
import { refuse, type Confidential, type Exchange, type Reply } from "sluice-gateway/plugin";

const digestForm = /^(?:sha256:)?([0-9a-f]{64})$/;

/** `GET /v1/confidential/evidence/{digest}`: the digest with or without `sha256:`. */
export function showEvidence(x: Exchange, confidential: Confidential): Reply {
  const hex = digestForm.exec(x.request.params["digest"] ?? "")?.[1];
  const evidence = hex === undefined ? undefined : confidential.evidence(`sha256:${hex}`);
  if (evidence === undefined) return refuse("GATEWAY_NOT_FOUND");
  return {
    status: 200,
    // Its digest names it: it can never be another.
    headers: [
      "content-type",
      "application/json",
      "cache-control",
      "public, max-age=3600, immutable",
    ],
    body: JSON.stringify(evidence),
  };
}

/** `GET /.well-known/confidential-policy.json`. */
export async function showPolicy(confidential: Confidential): Promise<Reply> {
  return {
    status: 200,
    headers: [
      "content-type",
      "application/json",
      "cache-control",
      "public, max-age=60",
      // It is signed, and meant for pages of any origin.
      "access-control-allow-origin",
      "*",
    ],
    body: JSON.stringify(await confidential.policy()),
  };
}
