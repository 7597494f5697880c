/**
 * An operator of the platform requests the explanation with `X-Sluice-Trace: 1`. It is sent as JSON in `X-Sluice-Trace`
 * and as times in `Server-Timing` (W3C), which browsers show, and covers the exchange up to its head.
 */
import type { LiveResponseHead } from "../run/response-head.ts";
import { explain } from "./explanation.ts";
import type { ExchangeRecord } from "./record.ts";

export function asksForTrace(headers: Readonly<Record<string, unknown>>): boolean {
  return headers["x-sluice-trace"] === "1";
}

/** Adds the explanation if the caller may see it. `ms`: duration of the exchange until now. */
export function addTrace(record: ExchangeRecord, head: LiveResponseHead, ms: number): void {
  if (record.facts.caller?.isOperator !== true) return;
  const explanation = explain(record, { status: head.status, code: head.code, ms });
  const timings = explanation.steps.flatMap(({ step, did, ms: took }) =>
    took === undefined ? [] : `${token(step)};dur=${took};desc="${did}"`,
  );
  head.set("server-timing", [...timings, `total;dur=${explanation.ms}`].join(", "));
  head.set("x-sluice-trace", ascii(JSON.stringify(explanation)));
}

/** Names of plugins are tokens (RFC 9110 section 5.6.2), but `(core)` is not. */
function token(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9-]/g, "");
}

/** A header contains only ASCII. Paths in pipeline.yaml may contain other characters. */
function ascii(json: string): string {
  return json.replaceAll(
    /[^\x20-\x7e]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
