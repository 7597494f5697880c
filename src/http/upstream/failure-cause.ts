import type { Metrics, UpstreamFailure } from "../../plugin.ts";

/** The statuses and codes that are labels of their own. A backend chooses them, so their number is bounded. */
const statuses = new Set([400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504]);
const errnos = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "ETIMEDOUT",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EPIPE",
  "EPROTO",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "ERR_TLS_CERT_ALTNAME_INVALID",
]);

const kinds: Readonly<Record<UpstreamFailure["kind"], string>> = {
  refused: "refused",
  connectTimeout: "connect_timeout",
  closed: "closed",
  answerTimeout: "answer_timeout",
  idleTimeout: "idle_timeout",
  garbage: "malformed",
  status: "status",
  unusable: "unusable",
  tooLarge: "too_large",
  saturated: "saturated",
  closing: "closing",
  internal: "internal",
};

/** Returns a label such as `http_401`, `ECONNREFUSED` or `answer_timeout`, from a bounded list. */
export function causeOf({ kind, status, errno }: UpstreamFailure): string {
  if (kind === "status" && status !== undefined) {
    return statuses.has(status) ? `http_${status}` : `http_${Math.floor(status / 100)}xx`;
  }
  return errno !== undefined && errnos.has(errno) ? errno : kinds[kind];
}

const words: Readonly<Record<UpstreamFailure["kind"], string>> = {
  refused: "no connection",
  connectTimeout: "no connection",
  closed: "the connection was closed",
  answerTimeout: "no answer",
  idleTimeout: "the rest of the answer is missing",
  garbage: "a malformed answer",
  status: "status",
  unusable: "an answer that cannot be right",
  tooLarge: "an answer above the size limit",
  saturated: "no free connection",
  closing: "the client was closed",
  internal: "an internal error",
};

/** Returns the cause in words, such as `status 401 (invalid_api_key) at 10.0.0.7:8000`. */
export function failureText(failure: UpstreamFailure): string {
  const { kind, status, errno, address, timeoutMs, type, code } = failure;
  const refusal = status === 401 || status === 403 ? `unauthorized: status ${status}` : undefined;
  const text = kind === "status" ? (refusal ?? `status ${status}`) : words[kind];
  const detail = errno ?? code ?? type;
  return [
    text,
    timeoutMs === undefined ? "" : ` within ${timeoutMs} ms`,
    detail === undefined ? "" : ` (${detail})`,
    address === undefined ? "" : ` at ${address}`,
  ].join("");
}

export function failureCounter(
  upstream: string,
  metrics: Metrics,
): (failure: UpstreamFailure) => void {
  const family = metrics.counter(
    "sluice_upstream_failures_total",
    "Requests that a backend did not answer, or not completely, by cause. A retry at another backend counts separately.",
    ["upstream", "cause"],
  );
  return (failure) => family.with({ upstream, cause: causeOf(failure) }).add(1);
}
