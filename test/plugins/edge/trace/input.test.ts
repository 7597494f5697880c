/**
 * Input of the step: the headers that are accepted as a client's trace (W3C Trace Context, section 3), and
 * OpenTelemetry's variables.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type SpanContext, trace } from "@opentelemetry/api";
import * as fc from "fast-check";
import { fieldsOf, parentOf } from "../../../../plugins/edge/trace/trace-context.ts";
import {
  readEnvironment,
  samplers,
  type TraceSettings,
} from "../../../../plugins/edge/trace/environment.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
const spanId = "00f067aa0ba902b7";
const traceparent = `00-${traceId}-${spanId}-01`;

function contextOf(headers: Parameters<typeof parentOf>[0]): SpanContext | undefined {
  return trace.getSpanContext(parentOf(headers));
}

describe("a traceparent that is accepted", () => {
  const taken: readonly (readonly [string, string, number])[] = [
    ["sampled", traceparent, 1],
    ["not sampled", `00-${traceId}-${spanId}-00`, 0],
    ["with a flag of level 2", `00-${traceId}-${spanId}-03`, 1],
    ["of a later version", `cc-${traceId}-${spanId}-01`, 1],
    ["of a later version that says more", `cc-${traceId}-${spanId}-01-what-the-future-holds`, 1],
  ];
  for (const [title, value, sampled] of taken) {
    it(title, () => {
      const context = contextOf({ traceparent: value });
      assert.equal(context?.traceId, traceId);
      assert.equal(context?.spanId, spanId);
      assert.equal((context?.traceFlags ?? 2) & 1, sampled);
      assert.equal(context?.isRemote, true);
      // The forwarded header has the version that is supported here.
      assert(context !== undefined);
      assert.deepEqual(fieldsOf(context), ["traceparent", `00-${traceId}-${spanId}-0${sampled}`]);
    });
  }
});

describe("an invalid traceparent, whose trace is not continued", () => {
  const refused: Readonly<Record<string, string>> = {
    empty: "",
    "version ff": `ff-${traceId}-${spanId}-01`,
    "version 00 with more behind it": `${traceparent}-more`,
    "version of one digit": `0-${traceId}-${spanId}-01`,
    "version that is not a number": `zz-${traceId}-${spanId}-01`,
    "trace id of zeros": `00-${"0".repeat(32)}-${spanId}-01`,
    "span id of zeros": `00-${traceId}-${"0".repeat(16)}-01`,
    "upper case": traceparent.toUpperCase(),
    "a trace id too short": `00-${traceId.slice(1)}-${spanId}-01`,
    "a trace id too long": `00-${traceId}0-${spanId}-01`,
    "a span id too short": `00-${traceId}-${spanId.slice(1)}-01`,
    "flags of one digit": `00-${traceId}-${spanId}-1`,
    "flags that are no number": `00-${traceId}-${spanId}-0x`,
    "without flags": `00-${traceId}-${spanId}`,
    "other separators": traceparent.replaceAll("-", "_"),
    // The value as Node joins two fields of that name.
    "two of them": `${traceparent}, ${traceparent}`,
  };
  for (const [title, value] of Object.entries(refused)) {
    it(title, () => {
      assert.equal(contextOf({ traceparent: value, tracestate: "a=1" }), undefined);
    });
  }

  it("absent, whatever tracestate contains", () => {
    assert.equal(contextOf({ tracestate: "a=1" }), undefined);
  });
});

describe("tracestate", () => {
  function passedOn(tracestate: string): string | undefined {
    const context = contextOf({ traceparent, tracestate });
    assert(context !== undefined);
    const [, , name, value] = fieldsOf(context);
    assert.equal(name, value === undefined ? undefined : "tracestate");
    return value;
  }

  it("is forwarded in its order", () => {
    assert.equal(
      passedOn("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
      "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
    );
    assert.equal(passedOn("tenant@vendor=1 , b=2"), "tenant@vendor=1,b=2");
  });

  it("loses invalid members, and is removed if none is left", () => {
    assert.equal(passedOn("a=1,B=2,,c,=d,e=5"), "a=1,e=5");
    assert.equal(passedOn("Not A State"), undefined);
    assert.equal(passedOn(""), undefined);
  });

  it("is limited in length", () => {
    const members = Array.from({ length: 40 }, (_, i) => `k${i}=v`);
    assert.equal(passedOn(members.join(",")), members.slice(0, 32).join(","));
    assert.ok(
      (passedOn(`a=1,b=${"x".repeat(250)},c=${"x".repeat(250)},d=${"x".repeat(250)}`) ?? "")
        .length <= 512,
    );
  });
});

it("any header results in a valid context or none", () => {
  const part = fc.string({
    unit: fc.constantFrom(...Array.from("0123456789abcdefABZ-, =")),
    maxLength: 40,
  });
  const near = fc.tuple(part, part, part, part).map((parts) => parts.join("-"));
  fc.assert(
    fc.property(fc.oneof(fc.string(), near), fc.string(), (value, tracestate) => {
      const context = contextOf({ traceparent: value, tracestate });
      if (context === undefined) return;
      assert.ok(trace.isSpanContextValid(context));
      const [, passed = "", , state = ""] = fieldsOf(context);
      assert.match(passed, /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/);
      assert.match(state, /^[\x20-\x7e]*$/);
    }),
  );
});

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
