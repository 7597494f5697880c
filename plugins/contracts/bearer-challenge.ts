/**
 * The header `WWW-Authenticate` of resources that accept access tokens. It shows clients where they can get a token.
 */

/**
 * Returns the value of `WWW-Authenticate` for a 401 of the resource with this address (RFC 6750 section 3, RFC 9728
 * section 5.1). It contains the address of the metadata of the resource. `authorization`: the header of the refused
 * request. If there is none, the challenge has no error code.
 */
export function bearerChallenge(resource: URL, authorization: string | undefined): string {
  const { origin, pathname, search } = resource;
  // RFC 9728 section 3.1
  const path = pathname === "/" ? "" : pathname;
  const metadata = `${origin}/.well-known/oauth-protected-resource${path}${search}`;
  const error = authorization === undefined ? "" : 'error="invalid_token", ';
  return `Bearer ${error}resource_metadata="${metadata}"`;
}
