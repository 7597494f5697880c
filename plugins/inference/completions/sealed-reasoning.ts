/**
 * Reasoning that the client of an agent keeps and sends back but does not show, encrypted with a key of the deployment
 * (AES-256-GCM). Workers have no state, so they need the reasoning again with the results of tools.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import type { Seal } from "sluice-gateway/plugin";

export interface ReasoningSeal {
  /** Returns base64. Undefined if the text is empty or has more than 64 KiB in UTF-8. */
  seal(text: string): string | undefined;
  /** Undefined if `sealed` was not made by this deployment, but by another provider for example. */
  open(sealed: string): string | undefined;
}

export const maxReasoningBytes = 64 * 1024;

/** First byte of sealed reasoning. The nonce, the tag and the encrypted text follow. */
const format = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + nonceBytes + tagBytes;
const maxSealedLength = 4 * Math.ceil((headBytes + maxReasoningBytes) / 3);
const algorithm = "aes-256-gcm";

/** `seal`: the surface needs `seal` under `permissions.deployment`. */
export function createReasoningSeal(seal: Seal): ReasoningSeal {
  const key = seal.key("reasoning of models");
  return {
    seal(text) {
      const bytes = Buffer.from(text);
      if (bytes.length === 0 || bytes.length > maxReasoningBytes) return undefined;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce);
      const body = Buffer.concat([cipher.update(bytes), cipher.final()]);
      return Buffer.concat([Buffer.of(format), nonce, cipher.getAuthTag(), body]).toString(
        "base64",
      );
    },
    open(sealed) {
      if (sealed.length > maxSealedLength) return undefined;
      const bytes = Buffer.from(sealed, "base64");
      if (bytes.length <= headBytes || bytes[0] !== format) return undefined;
      const decipher = createDecipheriv(algorithm, key, bytes.subarray(1, 1 + nonceBytes));
      decipher.setAuthTag(bytes.subarray(1 + nonceBytes, headBytes));
      const text = decipher.update(bytes.subarray(headBytes));
      try {
        return Buffer.concat([text, decipher.final()]).toString();
      } catch {
        return undefined;
      }
    },
  };
}
