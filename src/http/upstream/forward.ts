/** Forwards whole exchanges to an upstream: what is sent, and with what limits. How it travels is attempt.ts. */
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
import { requestFields, requestRules, responseRules, tracedRules } from "../headers.ts";
import { Upload } from "./upload.ts";
import type { UpstreamPools } from "./upstream.ts";

/** A forwarder over the connections of `upstream`. Headers are compiled here, once. */
export function createForwarder(
  upstream: UpstreamPools,
  options: ForwardOptions,
  metrics: Metrics,
): Forwarder {
  const rules = requestRules(options.request, options.passAuthorization);
  const traced = tracedRules(rules);
  const mostBytes = options.bodyBytes ?? Infinity;
  const plan: ForwardPlan = {
    upstream,
    answerRules: responseRules(options.response),
    failures: failureCounters(upstream.name, metrics),
  };
  return {
    forward(x, { target = x.request.target, requestId, trace } = {}) {
      const { request } = x;
      const bytes = announcedBytes(x);
      if (bytes > mostBytes) return Promise.resolve(tooLarge());
      const { method } = request;
      const span = trace?.child(method, "client", {
        "http.request.method": method,
        "sluice.upstream": upstream.name,
      });
      const headers = fieldsWith(span, request, requestId);
      const head = { method, target, headers, span };
      if (x.body !== undefined) return send(x, plan, { ...head, body: x.body });
      if (!request.hasBody) return send(x, plan, { ...head, body: null });
      const mayBeHere = bytes > 0 && bytes <= oneRead && request.headers["expect"] === undefined;
      if (mayBeHere) return sendArrived(x, plan, head, bytes);
      // undici frames the body: by this length, whose bytes it counts, or chunked.
      if (bytes > 0) headers.push("content-length", String(bytes));
      const body = (): Upload => new Upload(() => x.bodyStream(), mostBytes);
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

/** What one read from a socket brings at most: a body of that size often comes with its head. */
const oneRead = 64 * 1024;

/**
 * Sends a body that has arrived with its head in one piece, in one write with the upstream's head; else streams it. It
 * does not wait for a body: one microtask later the parser is through with the read that brought the head.
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
    // A byte stream without an encoding reads Buffers; all of it was there.
    const body = source.read() as Buffer;
    // The stream has to see its end.
    source.resume();
    return send(x, plan, { ...head, body });
  }
  head.headers.push("content-length", String(bytes));
  return send(x, plan, { ...head, body: () => new Upload(() => source, bytes) });
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

/** The body's size where it is known before it is read, else 0. */
function announcedBytes(x: Exchange): number {
  if (x.body !== undefined) return x.body.length;
  const length = x.request.headers["content-length"];
  return length === undefined ? 0 : Number(length);
}

function tooLarge(): Reply {
  return refuse("GATEWAY_INVALID_PARAMS", { status: 413, message: "the body is too large" });
}
