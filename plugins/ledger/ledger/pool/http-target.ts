/** Where an `http://` or `https://` node is, and the part of a request that never changes. */

export interface HttpTarget {
  readonly tls: boolean;
  /** A name or an address, IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /** The head up to and with `Content-Length: `. */
  readonly head: string;
}

/** Path and query are kept; `user:password@` becomes Basic authentication (RFC 7617, UTF-8). */
export function httpTarget(url: URL): HttpTarget {
  const tls = url.protocol === "https:";
  const lines = [
    // URL has percent-encoded all that could end a line.
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Content-Type: application/json",
    "Accept-Encoding: identity",
  ];
  const credentials = basicCredentials(url);
  if (credentials !== undefined) lines.push(`Authorization: Basic ${credentials}`);
  return {
    tls,
    host: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? (tls ? 443 : 80) : Number(url.port),
    head: `${lines.join("\r\n")}\r\nContent-Length: `,
  };
}

/** `base64(user:password)` of a URL that has them. */
export function basicCredentials(url: URL): string | undefined {
  if (url.username === "" && url.password === "") return undefined;
  return Buffer.from(`${decode(url.username)}:${decode(url.password)}`).toString("base64");
}

/** A password with a lone `%` is taken as it stands. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
