/** Forwards exchanges to an upstream: builds the request and applies the limits. forwarded-exchange.ts sends it. */
import { refuse } from "../../base/errors.ts";
import type {
  ChildSpan,
  Exchange,
  ForwardOptions,
  Forwarder,
  Metrics,
  Reply,
  RequestHead,
} from "../../plugin.ts";
import { failureCounter } from "./failure-cause.ts";
import { send, type ForwardPlan, type ForwardedRequest } from "./forwarded-exchange.ts";
import {
  fieldLines,
  replaceFields,
  requestFields,
  requestRules,
  responseRules,
  tracedRules,
} from "../../message/headers.ts";
import type { UpstreamPools } from "./upstream.ts";

/** The header rules are compiled once. */
export function createForwarder(
  upstream: UpstreamPools,
  options: ForwardOptions,
  metrics: Metrics,
): Forwarder {
  const rules = requestRules(options.request, options.passAuthorization);
  const traced = tracedRules(rules);
  const maxBytes = options.bodyBytes ?? Infinity;
  const { set = {}, remove = [] } = options.request ?? {};
  const configured = new Set([...Object.keys(set), ...remove].map((name) => name.toLowerCase()));
  const plan: ForwardPlan = {
    upstream,
    answerRules: responseRules(options.response),
    setsHost: Object.keys(set).some((name) => name.toLowerCase() === "host"),
    countFailure: failureCounter(upstream.name, metrics),
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
      const passed = fieldsWith(span, request, requestId);
      const { upstreamHeaders: own } = x;
      const fields = fieldLines(own.length === 0 ? passed : replaceFields(passed, own, configured));
      if (fields === undefined || !targetPattern.test(target)) {
        span?.end("invalid");
        return Promise.resolve(invalid());
      }
      const head = { method, target, fields, span };
      if (x.body !== undefined) return send(x, plan, { ...head, body: x.body });
      if (!request.hasBody) return send(x, plan, { ...head, body: null });
      const length = bytes > 0 ? bytes : undefined;
      const body = { length, maxBytes, open: () => x.bodyStream() };
      return sendArriving(x, plan, { ...head, body });
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

/**
 * Sends a body that may have arrived together with its head. After one microtask, the parser has processed the read that
 * contained the head, so that a small body can be sent in one write.
 */
async function sendArriving(
  x: Exchange,
  plan: ForwardPlan,
  outgoing: ForwardedRequest,
): Promise<Reply | undefined> {
  await Promise.resolve();
  if (!x.clientLeft) return send(x, plan, outgoing);
  outgoing.span?.end("clientLeft");
  return undefined;
}

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
