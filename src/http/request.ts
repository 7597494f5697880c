/** Single requests to backends of plugins, such as probes, polled documents and deliveries. */
import { createRequire } from "node:module";
import type * as Undici from "undici";
import { codeSuffix, packageFile } from "../base/package-files.ts";

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

const require = createRequire(import.meta.url);
/** The build puts undici into a file of its own (.ci/bundle.ts). */
const source = codeSuffix === ".ts" ? "undici" : packageFile("src/chunks/undici.cjs");

/**
 * Loads undici on first use, which saves 3 to 4 MiB in a gateway that only uses nodes. Call it during the start, because
 * the first call reads and runs about a hundred files.
 */
function undici(): typeof Undici {
  // `require` returns any. These are the package's own types.
  return require(source) as typeof Undici;
}
