/** Ended spans on their way out: gathered, sent in batches, dropped where the collector does not keep up. */
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
import type { Host } from "sluice-gateway/plugin";
import type { TraceSettings } from "./environment.ts";

/** How long a stop waits for a collector that does not answer. */
const closeMs = 3000;

export interface TraceExport {
  readonly provider: TracerProvider;
  /** Sends what has ended; resolves when that is done, or after `closeMs`. */
  close(): Promise<void>;
}

export function openExport(settings: TraceSettings, host: Host): TraceExport {
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

/** The SDK's batches, bounded as it bounds them itself, but counted; an outage is logged once. */
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
        // All that there is to say has been said: the SDK would only reject a shutdown half-way.
        done({ code: ExportResultCode.SUCCESS });
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush(),
  };
  const batches = new BatchSpanProcessor({ ...batch, exporter: counted });
  return {
    onStart() {},
    // Only spans that are sampled are recorded, and only recorded ones get here.
    onEnd(span) {
      if (waiting >= batch.maxQueueSize) return dropped.add(1);
      waiting++;
      batches.onEnd(span);
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  };
}

/** The variables have the last word. */
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
