/** The trace that a client is in: W3C Trace Context (https://www.w3.org/TR/trace-context/). */
import { ROOT_CONTEXT, trace, type Context, type SpanContext } from "@opentelemetry/api";
import { parseTraceParent, TraceState } from "@opentelemetry/core";
import type { MessageTrace } from "sluice-gateway/plugin";

/**
 * The context of a span: within the client's trace where its headers, or a message, name one as the standard has it,
 * else the root. Of `tracestate` (Node joins several) only what is valid is kept, and none of it without a
 * `traceparent` (section 3.3.1).
 */
export function parentOf({ traceparent, tracestate }: MessageTrace): Context {
  // Two of them arrive as one text with a comma in it, which is none.
  const parent = typeof traceparent === "string" ? parseTraceParent(traceparent) : null;
  if (parent === null) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    ...parent,
    isRemote: true,
    ...(typeof tracestate === "string" && { traceState: new TraceState(tracestate) }),
  });
}

/** Flat header fields for a request made within the span. */
export function fieldsOf({ traceId, spanId, traceFlags, traceState }: SpanContext): string[] {
  const sampled = (traceFlags & 1) === 1 ? "01" : "00";
  const state = traceState?.serialize() ?? "";
  const fields = ["traceparent", `00-${traceId}-${spanId}-${sampled}`];
  return state === "" ? fields : [...fields, "tracestate", state];
}
