/**
 * Signs an alert as specified by Standard Webhooks (github.com/standard-webhooks/standard-webhooks, version 1.0.0).
 */
import { createHmac } from "node:crypto";

/** Returns the key of a secret, which has been validated: `whsec_` and base64. */
export function signingKey(secret: string): Buffer {
  return Buffer.from(secret.slice("whsec_".length), "base64");
}

/**
 * Returns the header fields of one attempt. `id`: the same in all attempts of an alert. `now`: milliseconds since 1970.
 */
export function signedHeaders(
  key: Buffer,
  { id, body, now }: { readonly id: string; readonly body: string; readonly now: number },
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": `v1,${hmac}`,
  };
}
