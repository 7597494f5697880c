import { accessSync, constants, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { causeOf } from "sluice-gateway/internal/http";
import { defineStep, redact, type Exchange, type Log, type Outcome } from "sluice-gateway/plugin";
import { openLines, type WriteErrors } from "./line-writer.ts";

interface Options {
  readonly file?: string;
  readonly level?: keyof typeof levels;
  readonly sampling: number;
}

/** The level names and numbers of pino, so that its tools can read the lines and LOG_LEVEL can be passed on. */
const levels = {
  trace: 10,
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
  silent: Infinity,
} as const;

export default defineStep<Options>({
  name: "access-log",
  description: "Writes one JSON line per exchange: caller, request, outcome, duration and cost.",
  options: {
    type: "object",
    properties: {
      file: {
        description: "File to append to, relative to pipeline.yaml. Default: standard output.",
        type: "string",
        minLength: 1,
      },
      level: {
        description:
          "Lowest level that is written: info (all lines), warn (4xx, failed calls, clients that left) or error (5xx, upstreams). Default: `log.level`.",
        enum: Object.keys(levels),
      },
      sampling: {
        description:
          "Share of the info lines that are written, from 0 to 1. Warnings and errors are always written.",
        type: "number",
        minimum: 0,
        maximum: 1,
        default: 1,
      },
    },
    additionalProperties: false,
  },
  check({ file }, { folder }) {
    return file === undefined ? [] : folderFaults(resolve(folder, file));
  },
  permissions: { body: "none" },
  start({ file, level, sampling }, { clock, folder, log, metrics }) {
    const lost = metrics
      .counter("sluice_access_log_lost_total", "Access log lines that could not be written.")
      .with({});
    const writeErrors: WriteErrors = {
      failed: (error) => log.error({ err: error, file }, "the access log cannot be written"),
      dropped: (count) => lost.add(count),
    };
    const lines =
      file === undefined && log.line !== undefined
        ? { write: log.line, close: () => undefined }
        : openLines(file === undefined ? undefined : resolve(folder, file), clock, writeErrors);
    const least = levels[level ?? levelOf(log)];
    const sample = sampler(sampling);
    return {
      /** The address is read now, because the socket loses it when the client disconnects. */
      requestHeaders(x) {
        void x.request.address;
      },
      settled(x, outcome) {
        const severity = severityOf(x, outcome);
        if (severity < least || (severity === levels.info && !sample())) return;
        const line = JSON.stringify(describe(x, outcome, severity, clock.monotonic()));
        // The path and the request id come from the client and may contain a key, which must not be logged.
        lines.write(line.includes("gateway_") ? redact(line) : line);
      },
      stop: () => lines.close(),
    };
  },
});

function levelOf({ level = "info" }: Log): keyof typeof levels {
  // The configuration refuses levels that pino does not have.
  return Object.hasOwn(levels, level) ? (level as keyof typeof levels) : "info";
}

/**
 * Headers and queries are omitted, because they may contain secrets. The line is written with JSON.stringify, because
 * pino's own serializer takes twice as long (measurements: README.md).
 */
function describe(x: Exchange, outcome: Outcome, level: number, nowMs: number): object {
  const { requestId, caller, costMilliCu, agent, traceId, spanId, completion, store } = x.facts;
  const { upstream, backend, upstreamFailure } = x.facts;
  return {
    level,
    time: x.arrivedAt,
    requestId,
    method: x.request.method,
    route: x.route.path,
    path: x.request.path,
    status: x.sent.status,
    outcome,
    code: x.sent.code,
    store,
    reason: x.sent.reason,
    // The code of the last failed call is in the member `code`.
    calls: x.calls && { names: x.calls.names, items: x.calls.items, failed: x.calls.failed },
    durationMs: rounded(nowMs - x.arrivedMonotonic),
    bodyBytes: x.sent.bodyBytes,
    keyId: caller?.id,
    workspaceId: caller?.group,
    costMilli: costMilliCu,
    upstream,
    backend,
    upstreamFailure: upstreamFailure && { cause: causeOf(upstreamFailure), ...upstreamFailure },
    inputTokens: completion?.inputTokens,
    outputTokens: completion?.outputTokens,
    firstTokenMs: completion?.firstTokenMs && rounded(completion.firstTokenMs),
    address: x.request.address,
    agent,
    // OpenTelemetry's field names, by which log pipelines join log records with traces.
    trace_id: traceId,
    span_id: spanId,
  };
}

function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

function severityOf({ sent: { status }, calls }: Exchange, outcome: Outcome): number {
  if (status >= 500 || outcome === "upstreamFailed" || outcome === "timedOut") return levels.error;
  const isRefused = status >= 400 || (calls !== undefined && calls.failed > 0);
  return isRefused || outcome === "clientLeft" ? levels.warn : levels.info;
}

/**
 * The returned function returns true for this share of its calls, evenly distributed; it starts with true unless the
 * share is 0.
 */
function sampler(share: number): () => boolean {
  let owed = share === 0 ? 0 : 1 - share;
  return () => {
    owed += share;
    if (owed < 1) return false;
    owed -= 1;
    return true;
  };
}

/** A log file that cannot be opened is reported before the gateway opens its ports. */
function folderFaults(file: string): { pointer: string; message: string }[] {
  const folder = dirname(file);
  try {
    accessSync(folder, constants.W_OK);
    if (statSync(file, { throwIfNoEntry: false })?.isDirectory() === true) {
      return [{ pointer: "/file", message: `${file} is a folder` }];
    }
    return [];
  } catch {
    return [
      { pointer: "/file", message: `the folder ${folder} does not exist or cannot be written` },
    ];
  }
}
