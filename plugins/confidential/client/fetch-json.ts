import { readJsonObject, type JsonObject } from "../protocol/strict-json.ts";
import { readStream } from "../verify/binary-text.ts";
import { ConfidentialError } from "./failure.ts";

export interface FetchJsonOptions {
  readonly signal: AbortSignal;
  readonly headers?: Record<string, string>;
}

/**
 * Fetches a document, which the caller verifies, so the server need not be trusted. Returns undefined if it is missing,
 * too long or not strict JSON. Rejects with CONNECTION_FAILED if the server does not answer, or answers that it cannot
 * serve the document now; or with the signal's reason.
 */
export async function fetchJson(
  url: string,
  maxBytes: number,
  { signal, headers = {} }: FetchJsonOptions,
): Promise<JsonObject | undefined> {
  try {
    const response = await fetch(url, { signal, headers, redirect: "error", cache: "no-store" });
    const { ok, status, body } = response;
    if (status === 429 || status >= 500) throw new Error(`status ${status}`);
    if (!ok || body === null) return undefined;
    const bytes = await readStream(body, maxBytes);
    return bytes && readJsonObject(bytes, maxBytes);
  } catch {
    signal.throwIfAborted();
    const why = `${url} cannot be fetched now`;
    const checks = [{ name: "connection", result: "fail", why }] as const;
    throw new ConfidentialError("CONNECTION_FAILED", why, { checks });
  }
}
