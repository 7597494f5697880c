/** The cryptography of the protocol with WebCrypto. Private keys cannot be exported. */
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8 } from "../protocol/encoding.ts";
import type { Ephemeral, KeyOutput, Suite } from "../protocol/suite.ts";
import type { Bytes } from "../verify/binary-text.ts";

export const webSuite: Suite = {
  sha256: async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)),
  hkdf,
  createEphemeral,
  verify,
  // WebCrypto cannot hash data that arrives in pieces.
  newHash: () => sha256.create(),
};

async function createEphemeral(): Promise<Ephemeral> {
  const pair = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
  // X25519 always creates a pair, but Node's types declare a single secret key.
  const { privateKey, publicKey } = pair as unknown as Record<
    "privateKey" | "publicKey",
    CryptoKey
  >;
  return {
    publicKey: new Uint8Array(await crypto.subtle.exportKey("raw", publicKey)),
    async agree(peer) {
      try {
        const key = await crypto.subtle.importKey("raw", peer, { name: "X25519" }, false, []);
        const bits = await crypto.subtle.deriveBits(
          { name: "X25519", public: key },
          privateKey,
          256,
        );
        return new Uint8Array(bits);
      } catch {
        // The bytes are a point of low order, or not a key.
        return undefined;
      }
    },
  };
}

async function hkdf(
  salt: Bytes,
  ikm: Bytes,
  outputs: readonly KeyOutput[],
): Promise<readonly Bytes[]> {
  const key = await crypto.subtle.importKey("raw", ikm, "HKDF", false, ["deriveBits"]);
  const derive = async ({ info, length }: KeyOutput): Promise<Bytes> => {
    const parameters = { name: "HKDF", hash: "SHA-256", salt, info: utf8(info) };
    return new Uint8Array(await crypto.subtle.deriveBits(parameters, key, length * 8));
  };
  return Promise.all(outputs.map(derive));
}

async function verify(publicKey: Bytes, message: Bytes, signature: Bytes): Promise<boolean> {
  try {
    const key = await crypto.subtle.importKey("raw", publicKey, { name: "Ed25519" }, false, [
      "verify",
    ]);
    return await crypto.subtle.verify({ name: "Ed25519" }, key, signature, message);
  } catch {
    // The key is not a point of the curve.
    return false;
  }
}
