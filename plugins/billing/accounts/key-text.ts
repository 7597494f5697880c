/** The text of an API key is `gateway_<env>_<32 hex>`. It is shown once and never stored. */
import { hash, randomBytes } from "node:crypto";
import type { Environment } from "sluice-gateway/plugin";

export const environments: readonly Environment[] = ["dev", "stage", "prod"];

const hexDigits = 32;

export function newKeyText(environment: Environment): string {
  return `gateway_${environment}_${randomBytes(hexDigits / 2).toString("hex")}`;
}

/** Returns lower-case hex. The 128 random bits of a key do not need a slow hash. */
export function hashKey(keyText: string): string {
  return hash("sha256", keyText);
}

/** Returns a random, URL-safe id such as `ws_9f…` with 96 random bits. */
export function newId(prefix: "ws" | "key" | "pur"): string {
  return `${prefix}_${randomBytes(12).toString("hex")}`;
}

/** Returns the environment of the key that starts at `from` and fills the rest of `line`, if there is one. */
export function keyEnvironment(line: string, from = 0): Environment | undefined {
  for (const environment of environments) {
    const head = `gateway_${environment}_`;
    if (line.length === from + head.length + hexDigits && line.startsWith(head, from)) {
      return isHex(line, from + head.length) ? environment : undefined;
    }
  }
  return undefined;
}

/** Upper case is accepted, but no key is issued with it. */
function isHex(line: string, from: number): boolean {
  for (let i = from; i < line.length; i++) {
    const c = line.charCodeAt(i);
    const isDigit = c >= 0x30 && c <= 0x39;
    const isLetter = (c | 0x20) >= 0x61 && (c | 0x20) <= 0x66;
    if (!isDigit && !isLetter) return false;
  }
  return true;
}
