/** The function `fetch` of the client that `host.upstream` returns: standard requests and responses over `request`. */
import type { UpstreamClient } from "../../contract/upstream.ts";

/** Statuses that `Response` refuses to combine with a body, even with an empty one. */
const withoutBody = new Set([204, 205, 304]);

export function createFetch(url: URL, request: UpstreamClient["request"]): UpstreamClient["fetch"] {
  return async (input, { signal: ownSignal, ...init } = {}) => {
    if (isStream(init.body)) {
      throw new TypeError("a stream cannot be sent as the body of a request to this upstream");
    }
    // A Request follows the signal of its init until it is collected, so it gets none.
    const standard = new Request(input, init);
    const path = pathBelow(url, new URL(standard.url));
    const signal = ownSignal ?? (input instanceof Request ? input.signal : undefined);
    const { method, headers } = standard;
    const answer = await request({
      method,
      path,
      headers: Object.fromEntries(headers),
      ...(standard.body !== null && { body: Buffer.from(await standard.arrayBuffer()) }),
      ...(signal !== undefined && { signal }),
    });
    const { status, replyHeaders } = answer;
    const body = withoutBody.has(status) ? null : new Uint8Array(answer.body);
    const response = new Response(body, { status, headers: answer.headers });
    for (let at = 0; at < replyHeaders.length; at += 2) {
      const [name = "", value = ""] = replyHeaders.slice(at);
      if (name.toLowerCase() === "set-cookie") response.headers.append(name, value);
    }
    return response;
  };
}

function isStream(body: RequestInit["body"]): boolean {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
}

/** Returns the rest of the address as `request` needs it. Throws a TypeError if it is not below `url`. */
function pathBelow(url: URL, { origin, pathname, search }: URL): string {
  const base = url.pathname.replace(/\/$/, "");
  const isBelow = pathname === url.pathname || pathname.startsWith(`${base}/`);
  if (origin !== url.origin || !isBelow) {
    const reached = url.origin + url.pathname;
    throw new TypeError(`this client only reaches ${reached}, got ${origin}${pathname}`);
  }
  return pathname.slice(base.length) + search;
}
