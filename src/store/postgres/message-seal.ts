/**
 * Encodes and encrypts the messages between gateways (AES-256-GCM), because they contain what clients have sent, and the
 * database is readable by more people than the gateway. A message that another deployment has made cannot be opened.
 */
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
// This entry of the package has no native code.
import { Encoder } from "cbor-x/encode";
import type { Seal } from "../../contract/store.ts";

export interface ReplicaMessage {
  readonly topic: string | undefined;
  readonly from: string;
  readonly value: unknown;
  /** Number of the question that this message asks or answers. Undefined if it does neither. */
  readonly question: number | undefined;
}

export interface MessageSeal {
  seal(message: ReplicaMessage): Buffer;
  /** Returns undefined if the message was not made with this secret or in this format. */
  open(sealed: Uint8Array): ReplicaMessage | undefined;
}

/** First byte of a sealed message. Then follow the nonce, the tag and the encrypted CBOR. */
const format = 1;
const nonceBytes = 12;
const tagBytes = 16;
const headBytes = 1 + nonceBytes + tagBytes;
const algorithm = "aes-256-gcm";

export function createMessageSeal(seal: Seal): MessageSeal {
  const key = seal.key("messages between gateways");
  // Records are an extension of CBOR that compiles code, so they are disabled.
  const cbor = new Encoder({ useRecords: false, mapsAsObjects: true });
  return {
    seal({ topic, from, value, question }) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv(algorithm, key, nonce);
      const body = Buffer.concat([
        cipher.update(cbor.encode([topic, from, value, question])),
        cipher.final(),
      ]);
      return Buffer.concat([Buffer.of(format), nonce, cipher.getAuthTag(), body]);
    },
    open(sealed) {
      if (sealed.length < headBytes || sealed[0] !== format) return undefined;
      const nonce = sealed.subarray(1, 1 + nonceBytes);
      const decipher = createDecipheriv(algorithm, key, nonce);
      decipher.setAuthTag(sealed.subarray(1 + nonceBytes, headBytes));
      try {
        const body = Buffer.concat([decipher.update(sealed.subarray(headBytes)), decipher.final()]);
        // Only `seal` makes messages that can be decrypted.
        const [topic, from, value, question] = cbor.decode(body) as [
          topic: string | undefined,
          from: string,
          value: unknown,
          question: number | undefined,
        ];
        return { topic, from, value, question };
      } catch {
        return undefined;
      }
    },
  };
}
