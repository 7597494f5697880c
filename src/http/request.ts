/** Single requests to backends of plugins, such as probes, polled documents and deliveries. */
import { undici } from "./undici.ts";

export interface HttpRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly signal?: AbortSignal;
}

export interface HttpResponse {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Must be read or dumped, so that the connection can be used again. */
  readonly body: AsyncIterable<unknown> & {
    /** Reads the rest, at most `limit` bytes, and throws it away. */
    dump(options?: { readonly limit: number; readonly signal?: AbortSignal }): Promise<void>;
  };
}

/** Rejects if there is no response, or if the signal aborts. */
export type SendRequest = (url: string, request: HttpRequest) => Promise<HttpResponse>;

/** Returns the function that sends requests. The first call loads undici, so call it during the start. */
export function requestSender(): SendRequest {
  const { request } = undici();
  return (url, options) => request(url, options);
}
