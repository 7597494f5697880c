/** This file loads OpenTelemetry's SDK, so it is imported only if tracing is enabled. */
import { SpanKind } from "@opentelemetry/api";
import type { Host, StepHooks } from "sluice-gateway/plugin";
import type { TraceSettings } from "./environment.ts";
import { openExport } from "./export.ts";
import { startAttributes, endAttributes, nameOf } from "./http-attributes.ts";
import { LiveSpan } from "./live-span.ts";
import { parentOf } from "./trace-context.ts";

export function startTracing(settings: TraceSettings, host: Host): StepHooks<LiveSpan> {
  const { clock, version } = host;
  const spans = openExport(settings, host);
  const tracer = spans.provider.getTracer("sluice-gateway", version);
  return {
    createState(x) {
      const { traceparent, tracestate } = x.request.headers;
      const begun = tracer.startSpan(
        nameOf(x),
        { kind: SpanKind.SERVER, startTime: x.arrivedAt, attributes: startAttributes(x) },
        parentOf({ traceparent, tracestate }),
      );
      const offsetMs = x.arrivedAt - x.arrivedMonotonic;
      return new LiveSpan(begun, { tracer, clock, offsetMs });
    },
    requestHeaders(x, span) {
      x.set("trace", span);
      x.note("traceId", span.traceId);
      x.note("spanId", span.spanId);
    },
    settled(x, outcome, span) {
      if (!span.recorded) return;
      const { attributes, failed } = endAttributes(x, outcome);
      span.set(attributes);
      if (failed) span.fail();
      span.end();
    },
    stop: () => spans.close(),
  };
}
