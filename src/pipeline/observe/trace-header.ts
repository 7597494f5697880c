/**
 * What an administrator of the platform asks for with `X-Sluice-Trace: 1`: the story of the exchange in its answer, as
 * JSON in `X-Sluice-Trace` and its times in `Server-Timing` (W3C), which browsers draw. It ends where the head leaves:
 * what comes after that, `sluice explain` tells.
 */
import type { LiveExchange } from "../run/exchange.ts";
import type { LiveResponseHead } from "../run/response-head.ts";

/** Whether the story was asked for. Everybody may ask; whether it is told depends on the key. */
export function asksForTrace(headers: Readonly<Record<string, unknown>>): boolean {
  return headers["x-sluice-trace"] === "1";
}

export function addTrace(x: LiveExchange, head: LiveResponseHead): void {
  const { stories } = x.runtime;
  const principal = x.peek("principal");
  if (stories === undefined || principal?.kind !== "key") return;
  if (!principal.key.capabilities.has("platform:admin")) return;
  const told = stories.tellLive(x, head);
  const timings = told.steps.flatMap(({ step, did, ms }) =>
    ms === undefined ? [] : `${token(step)};dur=${ms};desc="${did}"`,
  );
  head.set("server-timing", [...timings, `total;dur=${told.ms}`].join(", "));
  head.set("x-sluice-trace", ascii(JSON.stringify(told)));
}

/** RFC 9110 section 5.6.2: names of plugins are tokens already, the core's own entry is not. */
function token(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9-]/g, "");
}

/** A header holds ASCII; paths of pipeline.yaml need not. */
function ascii(json: string): string {
  return json.replaceAll(
    /[^\x20-\x7e]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
