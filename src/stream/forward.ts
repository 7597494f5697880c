/** Forwards whole exchanges to an upstream: what is sent, and with what limits. How it travels is attempt.ts. */
import { refuse } from "../errors.ts";
import type { Exchange, ForwardOptions, Forwarder, Metrics, Reply } from "../plugin.ts";
import { send, type FailureReason, type ForwardPlan, type Outgoing } from "./attempt.ts";
import { requestFields, requestRules, responseRules, type FieldRules } from "./headers.ts";
import { Upload } from "./upload.ts";
import type { UpstreamPools } from "./upstream.ts";

/** A forwarder over the connections of `upstream`. Headers are compiled here, once. */
export function createForwarder(
  upstream: UpstreamPools,
  options: ForwardOptions,
  metrics: Metrics,
): Forwarder {
  const rules = requestRules(options.request, options.passAuthorization);
  const mostBytes = options.bodyBytes ?? Infinity;
  const plan: ForwardPlan = {
    upstream,
    answerRules: responseRules(options.response),
    failures: failureCounters(upstream.name, metrics),
  };
  return {
    forward(x, target = x.request.target) {
      if (announcedBytes(x) > mostBytes) return Promise.resolve(tooLarge());
      return send(x, plan, outgoing(x, target, rules, mostBytes));
    },
  };
}

function failureCounters(upstream: string, metrics: Metrics): ForwardPlan["failures"] {
  const family = metrics.counter(
    "sluice_upstream_failures_total",
    "Forwarded requests that an upstream did not answer, or not to the end.",
    ["upstream", "reason"],
  );
  const counter = (reason: FailureReason) => family.with({ upstream, reason });
  return {
    unreachable: counter("unreachable"),
    timedOut: counter("timedOut"),
    broken: counter("broken"),
  };
}

/** What is known of the body's size before it is read; 0 when nothing is. */
function announcedBytes(x: Exchange): number {
  if (x.body !== undefined) return x.body.length;
  const length = x.request.headers["content-length"];
  return length === undefined ? 0 : Number(length);
}

function tooLarge(): Reply {
  return refuse("GATEWAY_INVALID_PARAMS", { status: 413, message: "the body is too large" });
}

function outgoing(x: Exchange, target: string, rules: FieldRules, mostBytes: number): Outgoing {
  const { request } = x;
  const { method } = request;
  const headers = requestFields(request, rules);
  if (x.body !== undefined) return { method, target, headers, body: x.body };
  if (!request.hasBody) return { method, target, headers, body: null };
  const length = request.headers["content-length"];
  // undici frames the body: by this length, whose bytes it counts, or chunked.
  if (length !== undefined) headers.push("content-length", length);
  return { method, target, headers, body: new Upload(() => x.bodyStream(), mostBytes) };
}
