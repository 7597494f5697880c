/** Which of OpenTelemetry's variables switch traces on, and how their values are read. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  readEnvironment,
  samplers,
  type TraceSettings,
} from "../../../../plugins/edge/trace/environment.ts";

type Env = Readonly<Record<string, string>>;

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" };

function settingsOf(env: Env): { settings: TraceSettings; warnings: readonly string[] } {
  const { settings, warnings } = readEnvironment({ ...endpoint, ...env });
  assert(settings !== undefined);
  return { settings, warnings };
}

describe("traces are enabled", () => {
  const wanted: readonly Env[] = [
    endpoint,
    { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://collector/v1/traces" },
    { OTEL_TRACES_EXPORTER: "otlp" },
    { OTEL_TRACES_EXPORTER: "console, otlp" },
    { ...endpoint, OTEL_TRACES_EXPORTER: "otlp" },
    { ...endpoint, OTEL_TRACES_EXPORTER: "" },
    { ...endpoint, OTEL_SDK_DISABLED: "false" },
    { ...endpoint, OTEL_SDK_DISABLED: "1" },
  ];
  for (const env of wanted) {
    it(`with ${JSON.stringify(env)}`, () => {
      const { settings, warnings } = readEnvironment(env);
      assert.equal(settings?.sampler, "parentbased_always_on");
      assert.deepEqual(warnings, []);
    });
  }
});

describe("traces are disabled", () => {
  const unwanted: readonly (readonly [Env, RegExp | undefined])[] = [
    [{}, undefined],
    [{ OTEL_SERVICE_NAME: "sluice", OTEL_TRACES_SAMPLER: "always_on" }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "" }, undefined],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "  " }, undefined],
    [{ ...endpoint, OTEL_SDK_DISABLED: "true" }, undefined],
    [{ ...endpoint, OTEL_SDK_DISABLED: "TRUE" }, undefined],
    [{ ...endpoint, OTEL_TRACES_EXPORTER: "none" }, undefined],
    [
      { ...endpoint, OTEL_TRACES_EXPORTER: "zipkin" },
      /^OTEL_TRACES_EXPORTER: only otlp is supported$/,
    ],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, /_OTLP_ENDPOINT is not an http url/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: "not a url" }, /_OTLP_ENDPOINT is not an http url/],
    [
      { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "grpc://collector" },
      /_TRACES_ENDPOINT is not an http url/,
    ],
  ];
  for (const [env, warning] of unwanted) {
    it(`with ${JSON.stringify(env)}`, () => {
      const { settings, warnings } = readEnvironment(env);
      assert.equal(settings, undefined);
      assert.equal(warnings.length, warning === undefined ? 0 : 1);
      if (warning !== undefined) assert.match(warnings[0] ?? "", warning);
    });
  }
});

it("every sampler of the specification is known, whatever its case", () => {
  for (const sampler of samplers) {
    const { settings } = settingsOf({ OTEL_TRACES_SAMPLER: sampler.toUpperCase() });
    assert.equal(settings.sampler, sampler);
  }
});

it("a valid number is used; for any other text, the default is used and a warning is returned", () => {
  const { settings, warnings } = settingsOf({
    OTEL_TRACES_SAMPLER_ARG: "0.25",
    OTEL_BSP_SCHEDULE_DELAY: "100",
    OTEL_BSP_MAX_QUEUE_SIZE: "10",
    OTEL_BSP_EXPORT_TIMEOUT: "1000",
  });
  assert.equal(settings.ratio, 0.25);
  assert.deepEqual(settings.batch, {
    scheduledDelayMillis: 100,
    maxQueueSize: 10,
    // A batch is not larger than its queue.
    maxExportBatchSize: 10,
    exportTimeoutMillis: 1000,
  });
  assert.deepEqual(warnings, []);

  for (const text of ["-1", "0", "1.5", "many", "4294967296", "NaN", "Infinity"]) {
    const read = settingsOf({ OTEL_BSP_SCHEDULE_DELAY: text });
    assert.equal(read.settings.batch.scheduledDelayMillis, 5000, text);
    assert.deepEqual(read.warnings, ["OTEL_BSP_SCHEDULE_DELAY: 5000 is used instead"]);
  }
  for (const text of ["-0.1", "1.1", "half", "NaN"]) {
    const read = settingsOf({ OTEL_TRACES_SAMPLER_ARG: text });
    assert.equal(read.settings.ratio, 1, text);
    assert.deepEqual(read.warnings, ["OTEL_TRACES_SAMPLER_ARG: 1 is used instead"]);
  }
});

it("an unknown sampler and an unsupported protocol are reported, and traces are sent nevertheless", () => {
  const { settings, warnings } = settingsOf({
    OTEL_TRACES_SAMPLER: "jaeger_remote",
    OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
  });
  assert.equal(settings.sampler, "parentbased_always_on");
  assert.equal(warnings.length, 2);
  assert.match(
    warnings.join("\n"),
    /OTEL_EXPORTER_OTLP_PROTOCOL: only http\/protobuf is supported/,
  );
  assert.match(warnings.join("\n"), /OTEL_TRACES_SAMPLER: parentbased_always_on is used/);
  // The more specific variable has precedence.
  assert.deepEqual(
    settingsOf({
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/protobuf",
    }).warnings,
    [],
  );
});
