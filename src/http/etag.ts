import { hash } from "node:crypto";

/**
 * Returns a strong entity tag (RFC 9110 section 8.8.3): 128 bits of the content's SHA-256 in base64url, in quotes. It
 * contains no comma.
 */
export function etagOf(content: string | Uint8Array): string {
  return `"${hash("sha256", content, "base64url").slice(0, 22)}"`;
}

/**
 * Returns true if the answer is 304 (RFC 9110 section 13.1.2). `ifNoneMatch`: tags, which are compared weakly, or `*`.
 * `etag`: from `etagOf`.
 */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return tag === "*" || tag === etag || tag === `W/${etag}`;
  });
}
