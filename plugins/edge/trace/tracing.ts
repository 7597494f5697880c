/** This file loads OpenTelemetry's SDK, so it is imported only if tracing is enabled. */
import { SpanKind } from "@opentelemetry/api";
import { ExportResultCode } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
  type Resource,
} from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TracerProvider,
  TraceIdRatioBasedSampler,
  type Sampler,
  type SpanExporter,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace";
import type { Host, StepHooks } from "sluice-gateway/plugin";
import type { TraceSettings } from "./environment.ts";
import { startAttributes, endAttributes, nameOf } from "./http-attributes.ts";
import { LiveSpan } from "./live-span.ts";
import { parentOf } from "./trace-context.ts";

/** Maximum time that a stop waits for the collector. */
const closeMs = 3000;

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

interface TraceExport {
  readonly provider: TracerProvider;
  /** Resolves when the ended spans are sent, or after `closeMs`. */
  close(): Promise<void>;
}

function openExport(settings: TraceSettings, host: Host): TraceExport {
  const { clock } = host;
  const provider = new TracerProvider({
    resource: resourceOf(host),
    sampler: samplerOf(settings),
    spanProcessors: [countedBatches(settings, host)],
  });
  return {
    provider,
    async close() {
      const { promise, resolve } = Promise.withResolvers<void>();
      using _timer = clock.after(closeMs, resolve);
      await Promise.race([provider.shutdown(), promise]);
    },
  };
}

/** The SDK's batch processor, but it counts discarded spans and logs an outage once. */
function countedBatches({ batch }: TraceSettings, { log, metrics }: Host): SpanProcessor {
  const family = metrics.counter(
    "sluice_trace_spans_total",
    "Ended spans by result: `exported`, `failed` (the collector did not accept them) or `dropped` (too many were waiting).",
    ["result"],
  );
  const exported = family.with({ result: "exported" });
  const failed = family.with({ result: "failed" });
  const dropped = family.with({ result: "dropped" });
  const exporter = new OTLPTraceExporter();
  let waiting = 0;
  let failing = false;
  const counted: SpanExporter = {
    export(spans, done) {
      waiting -= spans.length;
      exporter.export(spans, ({ code, error }) => {
        const ok = code === ExportResultCode.SUCCESS;
        (ok ? exported : failed).add(spans.length);
        if (!ok && !failing) log.warn({ reason: error?.message }, "traces cannot be exported");
        failing = !ok;
        // The failure is already counted and logged. Reporting it would only make the SDK reject its shutdown.
        done({ code: ExportResultCode.SUCCESS });
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush(),
  };
  const batches = new BatchSpanProcessor({ ...batch, exporter: counted });
  return {
    onStart() {},
    // Only sampled spans are recorded, and only recorded spans are passed to this method.
    onEnd(span) {
      if (waiting >= batch.maxQueueSize) return dropped.add(1);
      waiting++;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}

/** The environment variables take precedence. */
function resourceOf({ version, environment }: Host): Resource {
  return defaultResource()
    .merge(
      resourceFromAttributes({
        "service.name": "sluice",
        "service.version": version,
        "deployment.environment.name": environment,
      }),
    )
    .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }));
}

function samplerOf({ sampler, ratio }: TraceSettings): Sampler {
  const parentBased = sampler.startsWith("parentbased_");
  const root = rootSampler(sampler.replace("parentbased_", ""), ratio);
  return parentBased ? new ParentBasedSampler({ root }) : root;
}

function rootSampler(name: string, ratio: number): Sampler {
  if (name === "traceidratio") return new TraceIdRatioBasedSampler(ratio);
  return name === "always_off" ? new AlwaysOffSampler() : new AlwaysOnSampler();
}
