/** One batch on its way to whoever bills, and what they make of it. */
import { request } from "undici";

export type DeliveryResult =
  | { readonly kind: "accepted" }
  /** It will not be taken as it is. `smaller`: deps of it may be. */
  | { readonly kind: "refused"; readonly status: number; readonly smaller: boolean }
  /** Later. `afterMs`: not before, where the sink said so. */
  | { readonly kind: "unavailable"; readonly reason: string; readonly afterMs: number };

export interface Sink {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const contentType = "application/cloudevents-batch+json; charset=utf-8";

/** RFC 9110: what may go well another time. All else of 300 and above is the request's own fault, or ours. */
const retryableStatuses = new Set([408, 421, 425, 429]);
/** What one event of many can bring about. */
const events = new Set([400, 409, 413, 422]);
/** A sink that asks for more patience is asked again after this. */
const maxRetryAfterMs = 3_600_000;

/** Never rejects. The status alone counts: of an answer's body nothing is ours to log, and it may never end. */
export async function send(
  sink: Sink,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<DeliveryResult> {
  try {
    const headers = { ...sink.headers, "content-type": contentType };
    const answer = await request(sink.url, { method: "POST", headers, body, signal });
    // Read, so that the connection can be used again. One that does not end is cut by the signal.
    await answer.body.dump({ limit: 64 * 1024, signal }).catch(() => {});
    const { statusCode: status } = answer;
    if (status >= 200 && status < 300) return { kind: "accepted" };
    if (status >= 500 || retryableStatuses.has(status)) {
      const afterMs = retryAfterMs(answer.headers["retry-after"]);
      return { kind: "unavailable", reason: `status ${status}`, afterMs };
    }
    return { kind: "refused", status, smaller: events.has(status) };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "failed";
    return { kind: "unavailable", reason: signal.aborted ? "no answer in time" : code, afterMs: 0 };
  }
}

/** RFC 9110 section 10.2.3, in seconds; a date is rare enough to be taken for nothing. */
function retryAfterMs(value: string | string[] | undefined): number {
  const seconds = typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : 0;
  return Math.min(seconds * 1_000, maxRetryAfterMs);
}
