/** Forwards exchanges to an upstream: builds the request and applies the limits. attempt.ts sends it. */
import { refuse } from "../../errors.ts";
import type {
  ChildSpan,
  Exchange,
  ForwardOptions,
  Forwarder,
  Metrics,
  Reply,
  RequestHead,
} from "../../plugin.ts";
import { send, type FailureReason, type ForwardPlan, type Outgoing } from "./attempt.ts";
import { fieldLines, requestFields, requestRules, responseRules, tracedRules } from "../headers.ts";
import { Upload } from "./upload.ts";
import type { UpstreamPools } from "./upstream.ts";

/** Returns a forwarder that uses the connections of `upstream`. The header rules are compiled once. */
export function createForwarder(
  upstream: UpstreamPools,
  options: ForwardOptions,
  metrics: Metrics,
): Forwarder {
  const rules = requestRules(options.request, options.passAuthorization);
  const traced = tracedRules(rules);
  const maxBytes = options.bodyBytes ?? Infinity;
  const plan: ForwardPlan = {
    upstream,
    answerRules: responseRules(options.response),
    setsHost: Object.keys(options.request?.set ?? {}).some((name) => name.toLowerCase() === "host"),
    failures: failureCounters(upstream.name, metrics),
  };
  return {
    forward(x, { target = x.request.target, requestId, trace } = {}) {
      const { request } = x;
      const bytes = announcedBytes(x);
      if (bytes > maxBytes) return Promise.resolve(tooLarge());
      const { method } = request;
      const span = trace?.child(method, "client", {
        "http.request.method": method,
        "sluice.upstream": upstream.name,
      });
      const fields = fieldLines(fieldsWith(span, request, requestId));
      if (fields === undefined || !targetPattern.test(target)) {
        span?.end("invalid");
        return Promise.resolve(invalid());
      }
      const head = { method, target, fields, span };
      if (x.body !== undefined) return send(x, plan, { ...head, body: x.body });
      if (!request.hasBody) return send(x, plan, { ...head, body: null });
      const mayBeHere = bytes > 0 && bytes <= oneRead && request.headers["expect"] === undefined;
      if (mayBeHere) return sendArrived(x, plan, head, bytes);
      const body = new Upload(() => x.bodyStream(), bytes > 0 ? bytes : undefined, maxBytes);
      return send(x, plan, { ...head, body });
    },
  };

  function fieldsWith(
    span: ChildSpan | undefined,
    request: RequestHead,
    requestId: string | undefined,
  ): string[] {
    if (span === undefined || traced === undefined) return requestFields(request, rules, requestId);
    return [...requestFields(request, traced, requestId), ...span.headers];
  }
}

/** A path without blanks and control characters, which would change where the request line ends. */
const targetPattern = /^\/[\x21-\x7e\x80-\xff]*$/;

/** Maximum size of one read from a socket. A body of up to that size often arrives with its head. */
const oneRead = 64 * 1024;

/**
 * Sends a body that has arrived together with its head in one write with the upstream's head, else streams it. It does
 * not wait for a body: after one microtask, the parser has processed the read that contained the head.
 */
async function sendArrived(
  x: Exchange,
  plan: ForwardPlan,
  head: Omit<Outgoing, "body">,
  bytes: number,
): Promise<Reply | undefined> {
  const source = x.bodyStream();
  await Promise.resolve();
  if (x.clientLeft) {
    head.span?.end("clientLeft");
    return undefined;
  }
  if (source.readableLength === bytes) {
    // A byte stream without an encoding reads Buffers, and the whole body has arrived.
    const body = source.read() as Buffer;
    // Lets the stream reach its end.
    source.resume();
    return send(x, plan, { ...head, body });
  }
  return send(x, plan, { ...head, body: new Upload(() => source, bytes, bytes) });
}

function failureCounters(upstream: string, metrics: Metrics): ForwardPlan["failures"] {
  const family = metrics.counter(
    "sluice_upstream_failures_total",
    "Forwarded requests that an upstream did not answer, or not completely, by reason.",
    ["upstream", "reason"],
  );
  const counter = (reason: FailureReason) => family.with({ upstream, reason });
  return {
    unreachable: counter("unreachable"),
    timedOut: counter("timedOut"),
    broken: counter("broken"),
  };
}

/** Returns the size of the body if it is known before reading, else 0. */
function announcedBytes(x: Exchange): number {
  if (x.body !== undefined) return x.body.length;
  const length = x.request.headers["content-length"];
  return length === undefined ? 0 : Number(length);
}

function tooLarge(): Reply {
  return refuse("GATEWAY_INVALID_PARAMS", { status: 413, message: "the body is too large" });
}

/** A plugin has set a target or a field that HTTP/1.1 cannot express. */
function invalid(): Reply {
  return refuse("GATEWAY_INVALID_PARAMS", { message: "the request cannot be forwarded" });
}
