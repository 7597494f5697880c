/**
 * Returns the request head except `Content-Length`. `user:password@` becomes Basic authentication (RFC 7617, UTF-8).
 */
export function requestHead(url: URL): string {
  const lines = [
    // `URL` has percent-encoded every character that could end a line.
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    "Content-Type: application/json",
    "Accept-Encoding: identity",
  ];
  const credentials = basicCredentials(url);
  if (credentials !== undefined) lines.push(`Authorization: Basic ${credentials}`);
  return `${lines.join("\r\n")}\r\n`;
}

export function basicCredentials(url: URL): string | undefined {
  if (url.username === "" && url.password === "") return undefined;
  return Buffer.from(`${decode(url.username)}:${decode(url.password)}`).toString("base64");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
