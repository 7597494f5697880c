/** Signed, self-describing tokens: `<base64url of JSON>.<base64url of HMAC-SHA256>`. Nothing about them is stored. */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Seal } from "../services.ts";

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
      const given = Buffer.from(token.slice(dot + 1), "base64url");
      const wanted = mac(purpose, payload);
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

/** The data folder's own secret, made at first use, readable by the owner only. */
export function keptSecret(dataDir: string): string {
  const file = join(dataDir, "secret");
  try {
    // `wx`: of two that start at once, one makes it.
    writeFileSync(file, randomBytes(32).toString("hex"), { flag: "wx", mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  return readFileSync(file, "utf8");
}
