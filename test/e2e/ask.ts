/** Sends one request on a connection of its own, and reads the whole answer. */
import { request, type IncomingHttpHeaders } from "node:http";

/** A value of JSON.parse. Tests read deeply nested members, and a missing member fails them. */
export type Parsed = ReturnType<typeof JSON.parse>;

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly json: Parsed;
}

export interface Sent {
  /** Default: GET without a body, and POST with one. */
  readonly method?: string;
  /** Text of the key for `Authorization`. */
  readonly key?: string | null | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Strings and bytes are sent unchanged, and other values as JSON. */
  readonly body?: unknown;
}

export function ask(url: string, { key, headers, body, ...sent }: Sent = {}): Promise<Answer> {
  const { method = body === undefined ? "GET" : "POST" } = sent;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const req = request(url, {
    method,
    agent: false,
    headers: {
      ...(typeof key === "string" && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
  });
  req.on("error", reject).on("response", (res) => {
    let text = "";
    res.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    res.on("error", reject).on("end", () =>
      resolve({
        status: res.statusCode ?? 0,
        headers: res.headers,
        text,
        get json() {
          return JSON.parse(text);
        },
      }),
    );
  });
  const isRaw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  req.end(isRaw ? body : JSON.stringify(body));
  return promise;
}
