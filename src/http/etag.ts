/** Entity tags of answers (RFC 9110 section 8.8.3), with which clients check that their copy is current. */
import { hash } from "node:crypto";

/** Returns a strong tag of the content: 128 bits of its SHA-256 in base64url, in quotes. It contains no comma. */
export function etagOf(content: string | Uint8Array): string {
  return `"${hash("sha256", content, "base64url").slice(0, 22)}"`;
}

/**
 * Returns true if the header If-None-Match names the tag, so that the answer is 304 (RFC 9110 section 13.1.2). The
 * header is a list of tags or `*`, which are compared weakly. `etag`: from `etagOf`.
 */
export function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(",").some((part) => {
    const tag = part.trim();
    return tag === "*" || tag === etag || tag === `W/${etag}`;
  });
}
