import { sendRequest } from "sluice-gateway/internal/http";
import { errorCode } from "sluice-gateway/internal/toolkit";

export type DeliveryResult =
  | { readonly kind: "accepted" }
  /** The sink refuses the batch. `smaller`: a smaller batch may be accepted. */
  | { readonly kind: "refused"; readonly status: number; readonly smaller: boolean }
  /** The batch must be sent again later. `afterMs`: minimum wait, if the sink sent one, else 0. */
  | { readonly kind: "unavailable"; readonly reason: string; readonly afterMs: number };

export interface Sink {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const contentType = "application/cloudevents-batch+json; charset=utf-8";

/**
 * Status codes below 500 after which a request may succeed later (RFC 9110). All others from 300 on are errors of the
 * request or of the configuration.
 */
const retryableStatuses = new Set([408, 421, 425, 429]);
/** Status codes that a single event of the batch can cause. */
const eventErrorStatuses = new Set([400, 409, 413, 422]);
const maxRetryAfterMs = 3_600_000;

/** Never rejects. Only the status is used: the body of the response may never end, and none of it may be logged. */
export async function send(
  sink: Sink,
  body: Uint8Array,
  signal: AbortSignal,
): Promise<DeliveryResult> {
  try {
    const headers = { ...sink.headers, "content-type": contentType };
    const answer = await sendRequest(sink.url, {
      method: "POST",
      headers,
      body,
      signal,
    });
    // Reads the body so that the connection can be reused. The signal aborts a body that does not end.
    await answer.dump(64 * 1024).catch(() => {});
    const { statusCode: status } = answer;
    if (status >= 200 && status < 300) return { kind: "accepted" };
    if (status >= 500 || retryableStatuses.has(status)) {
      const afterMs = retryAfterMs(answer.headers["retry-after"]);
      return { kind: "unavailable", reason: `status ${status}`, afterMs };
    }
    return { kind: "refused", status, smaller: eventErrorStatuses.has(status) };
  } catch (error) {
    const code = errorCode(error) ?? "failed";
    return { kind: "unavailable", reason: signal.aborted ? "no answer in time" : code, afterMs: 0 };
  }
}

/** Parses Retry-After in seconds (RFC 9110 section 10.2.3). A date is rare and counts as missing. */
function retryAfterMs(value: string | string[] | undefined): number {
  const seconds = typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : 0;
  return Math.min(seconds * 1_000, maxRetryAfterMs);
}
