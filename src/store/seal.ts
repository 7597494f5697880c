/** Signed, self-describing tokens: `<base64url of JSON>.<base64url of HMAC-SHA256>`. Nothing about them is stored. */
import { createHmac, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Seal } from "../services/store.ts";
import { explain, StoreError } from "./store-error.ts";

/** `secret`: the deployment's; the same on every replica. */
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
      // Compared as text: base64url has several spellings for the same bytes, and only one of them is ours.
      const given = Buffer.from(token.slice(dot + 1));
      const wanted = Buffer.from(mac(purpose, payload).toString("base64url"));
      if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return undefined;
      // Only `seal` makes a payload with a valid mac, so it has this shape.
      const { v, e } = JSON.parse(Buffer.from(payload, "base64url").toString()) as {
        v: unknown;
        e: number;
      };
      return { value: v, expiresAt: e };
    },
  };
}

const secretBytes = 32;

/**
 * The data folder's own secret, made at first use, readable by the owner only. Throws StoreError when it cannot be
 * kept, or when the file holds something else: an empty secret would seal nothing.
 */
export function keptSecret(dataDir: string): string {
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
    `${file} does not hold a secret`,
    "Remove the file. A new secret is made, and tokens that were sealed with the old one are refused.",
  );
}

/** Whole or not at all: written beside, on disk, then linked. Of two that start at once, one makes it. */
function makeSecret(file: string): void {
  const draft = `${file}.${randomUUID()}`;
  try {
    const text = randomBytes(secretBytes).toString("hex");
    writeFileSync(draft, text, { flag: "wx", mode: 0o600, flush: true });
    linkSync(draft, file);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
