/** Signed, self-describing tokens: `<base64url of JSON>.<base64url of HMAC-SHA256>`. Nothing about them is stored. */
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Seal } from "../contract/store.ts";
import { explain, StoreError } from "./store-error.ts";
import { errorCode } from "../base/error-code.ts";

export function createSeal(secret: string): Seal {
  const mac = (purpose: string, payload: string): Buffer =>
    createHmac("sha256", secret).update(`${purpose}\n${payload}`).digest();
  return {
    seal(purpose, value, expiresAt) {
      const payload = Buffer.from(JSON.stringify({ v: value, e: expiresAt })).toString("base64url");
      return `${payload}.${mac(purpose, payload).toString("base64url")}`;
    },
    open(purpose, token) {
      const dot = token.indexOf(".");
      if (dot === -1) return undefined;
      const payload = token.slice(0, dot);
      // Compared as text, because base64url can encode the same bytes in several ways and only one is canonical.
      const given = Buffer.from(token.slice(dot + 1));
      const wanted = Buffer.from(mac(purpose, payload).toString("base64url"));
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
      // Only `seal` makes payloads with a valid MAC, so the payload has this shape.
      const { v, e } = JSON.parse(Buffer.from(payload, "base64url").toString()) as {
        v: unknown;
        e: number;
      };
      return { value: v, expiresAt: e };
    },
    // The text is not a token, because it contains a line break.
    key: (purpose) => createHmac("sha256", secret).update(purpose).digest(),
  };
}

const secretBytes = 32;

/**
 * The file is created at first use, readable only by its owner. Throws StoreError if it cannot be stored, or does not
 * contain a secret, because tokens sealed with an empty secret could be forged.
 */
export function readOrCreateSecret(dataDir: string): string {
  const file = join(dataDir, "secret");
  try {
    if (!existsSync(file)) makeSecret(file);
    const secret = readFileSync(file, "utf8").trim();
    if (secret.length >= 2 * secretBytes) return secret;
  } catch (error) {
    throw explain(error, file);
  }
  throw new StoreError(
    "SLUICE_STORE_CORRUPT",
    `${file} does not contain a valid secret`,
    "Remove the file and start again. Sluice then creates a new secret and refuses tokens sealed with the old one.",
  );
}

/** Writes and flushes a draft, then links it. If two processes start at once, one of them creates the file. */
function makeSecret(file: string): void {
  const draft = `${file}.${randomUUID()}`;
  try {
    const text = randomBytes(secretBytes).toString("hex");
    writeFileSync(draft, text, { flag: "wx", mode: 0o600, flush: true });
    linkSync(draft, file);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
