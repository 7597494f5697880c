import { hash } from "node:crypto";

/** Returns a strong tag of the content: 128 bits of its SHA-256 in base64url, in quotes. It contains no comma. */
export function etagOf(content: string | Uint8Array): string {
  return `"${hash("sha256", content, "base64url").slice(0, 22)}"`;
}

/**
 * Compares weakly; the answer is then 304 (RFC 9110 section 13.1.2). `ifNoneMatch`: tags or `*`. `etag`: from `etagOf`.
 */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return tag === "*" || tag === etag || tag === `W/${etag}`;
  });
}
