/** Fetches a JSON document. The caller verifies it, so the server need not be trusted. */
import { readJsonObject } from "../protocol/strict-json.ts";
import type { JsonObject } from "../protocol/strict-json.ts";
import { joinBytes } from "../verify/binary-text.ts";

export interface FetchJsonOptions {
  readonly signal: AbortSignal;
  readonly headers?: Record<string, string>;
}

/** Fetches a document. Returns undefined if it is missing, too long or not strict JSON. Rejects only with the signal's reason. */
export async function fetchJson(
  url: string,
  maxBytes: number,
  { signal, headers = {} }: FetchJsonOptions,
): Promise<JsonObject | undefined> {
  try {
    const response = await fetch(url, { signal, headers, redirect: "error", cache: "no-store" });
    if (!response.ok || response.body === null) return undefined;
    const bytes = await readUpTo(response.body, maxBytes);
    return bytes && readJsonObject(bytes, maxBytes);
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

async function readUpTo(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
): Promise<Uint8Array | undefined> {
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  for (let length = 0; ;) {
    const { done, value } = await reader.read();
    if (done) return joinBytes(...chunks);
    length += value.length;
    if (length > maxBytes) {
      await reader.cancel();
      return undefined;
    }
    chunks.push(value);
  }
}
