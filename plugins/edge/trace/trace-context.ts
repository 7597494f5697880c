/** W3C Trace Context (https://www.w3.org/TR/trace-context/). */
import { ROOT_CONTEXT, trace, type Context, type SpanContext } from "@opentelemetry/api";
import { parseTraceParent, TraceState } from "@opentelemetry/core";
import type { MessageTrace } from "sluice-gateway/plugin";

/**
 * Returns the client's trace if its headers, or a message, contain a valid one, else the root. Only the valid part of
 * `tracestate` is kept (Node joins several fields), and nothing without a `traceparent` (section 3.3.1).
 */
export function parentOf({ traceparent, tracestate }: MessageTrace): Context {
  // Two fields arrive as one text with a comma, which is invalid.
  const parent = typeof traceparent === "string" ? parseTraceParent(traceparent) : null;
  if (parent === null) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    ...parent,
    isRemote: true,
    ...(typeof tracestate === "string" && { traceState: new TraceState(tracestate) }),
  });
}

export function fieldsOf({ traceId, spanId, traceFlags, traceState }: SpanContext): string[] {
  const sampled = (traceFlags & 1) === 1 ? "01" : "00";
  const state = traceState?.serialize() ?? "";
  const fields = ["traceparent", `00-${traceId}-${spanId}-${sampled}`];
  return state === "" ? fields : [...fields, "tracestate", state];
}
