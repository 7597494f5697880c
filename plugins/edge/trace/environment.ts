/**
 * Reads OpenTelemetry's environment variables for traces
 * (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/). The exporter reads
 * `OTEL_EXPORTER_OTLP_*` itself, and the resource `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`.
 */

type Env = Readonly<Record<string, string | undefined>>;

export const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

export interface TraceSettings {
  readonly sampler: (typeof samplers)[number];
  /** Share of the traces that the `traceidratio` samplers record, from 0 to 1. */
  readonly ratio: number;
  /** Limits of the batches, with the names and units of the SDK. */
  readonly batch: {
    readonly scheduledDelayMillis: number;
    readonly maxQueueSize: number;
    readonly maxExportBatchSize: number;
    readonly exportTimeoutMillis: number;
  };
}

export interface TraceEnvironment {
  /** Undefined if nothing is traced. */
  readonly settings: TraceSettings | undefined;
  /** The specification requires a warning and the default instead of a failed start. */
  readonly warnings: readonly string[];
}

export function readEnvironment(env: Env): TraceEnvironment {
  const warnings: string[] = [];
  if (!isWanted(env, warnings)) return { settings: undefined, warnings: warnings };
  checkProtocol(env, warnings);
  const count = (name: string, standard: number): number =>
    readNumber(env, name, { standard, fits: isCount }, warnings);
  const maxQueueSize = count("OTEL_BSP_MAX_QUEUE_SIZE", 2048);
  return {
    settings: {
      sampler: readSampler(env, warnings),
      ratio: readNumber(env, "OTEL_TRACES_SAMPLER_ARG", { standard: 1, fits: isShare }, warnings),
      batch: {
        scheduledDelayMillis: count("OTEL_BSP_SCHEDULE_DELAY", 5000),
        maxQueueSize,
        maxExportBatchSize: Math.min(count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), maxQueueSize),
        exportTimeoutMillis: count("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
      },
    },
    warnings: warnings,
  };
}

/**
 * In the specification, `otlp` is the default and sends to localhost. Here, either an endpoint must be set, or `otlp`
 * must be selected explicitly.
 */
function isWanted(env: Env, warnings: string[]): boolean {
  if (valueOf(env, "OTEL_SDK_DISABLED")?.toLowerCase() === "true") return false;
  const endpoints = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
  const endpoint = endpoints.find((name) => valueOf(env, name) !== undefined);
  const exporters = valueOf(env, "OTEL_TRACES_EXPORTER")
    ?.split(",")
    .map((name) => name.trim());
  if (exporters === undefined ? endpoint === undefined : !exporters.includes("otlp")) {
    const unknown = exporters?.find((name) => name !== "none" && name !== "");
    if (unknown !== undefined) warnings.push(`OTEL_TRACES_EXPORTER: only otlp is supported`);
    return false;
  }
  if (endpoint === undefined || isHttp(valueOf(env, endpoint))) return true;
  warnings.push(`${endpoint} is not an http url: tracing is disabled`);
  return false;
}

function checkProtocol(env: Env, warnings: string[]): void {
  const names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
  const name = names.find((one) => valueOf(env, one) !== undefined);
  if (name !== undefined && valueOf(env, name) !== "http/protobuf") {
    warnings.push(`${name}: only http/protobuf is supported, and is used instead`);
  }
}

function readSampler(env: Env, warnings: string[]): TraceSettings["sampler"] {
  const standard = "parentbased_always_on";
  const name = valueOf(env, "OTEL_TRACES_SAMPLER");
  if (name === undefined) return standard;
  const known = samplers.find((sampler) => sampler === name.toLowerCase());
  if (known === undefined) warnings.push(`OTEL_TRACES_SAMPLER: ${standard} is used instead`);
  return known ?? standard;
}

function readNumber(
  env: Env,
  name: string,
  { standard, fits }: { readonly standard: number; readonly fits: (n: number) => boolean },
  complaints: string[],
): number {
  const text = valueOf(env, name);
  if (text === undefined) return standard;
  const value = Number(text);
  if (fits(value)) return value;
  complaints.push(`${name}: ${standard} is used instead`);
  return standard;
}

/** The maximum delay of a timer is 2^31 - 1 ms. */
function isCount(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value < 2 ** 31;
}

function isShare(value: number): boolean {
  return value >= 0 && value <= 1;
}

function isHttp(text: string | undefined): boolean {
  const url = URL.parse(text ?? "");
  return url?.protocol === "http:" || url?.protocol === "https:";
}

/** By the specification, an empty variable counts as not set. */
function valueOf(env: Env, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}
