/**
 * Step `trace`: traces every exchange with OpenTelemetry if its environment variables enable it. Otherwise it does
 * nothing and loads nothing.
 */
import {
  defineStep,
  type Agent,
  type Charge,
  type Principal,
  type TraceSpan,
} from "sluice-gateway/plugin";
import { readEnvironment } from "./environment.ts";

declare module "sluice-gateway/plugin" {
  interface Slots {
    requestId: string;
    principal: Principal;
    charge: Charge;
    agent: Agent;
    /** The span of the exchange. Absent if nothing is traced, so list it under `wants` and not under `needs`. */
    trace: TraceSpan;
  }
}

export default defineStep({
  name: "trace",
  description: "Sends OpenTelemetry traces; enabled by the standard OTEL_* variables.",
  wants: { requestId: "settled", principal: "settled", charge: "settled", agent: "settled" },
  provides: { trace: "requestHeaders" },
  async start(_, host) {
    // OpenTelemetry's variables are the same for all programs of a machine. Its SDK reads others of them from the
    // environment itself.
    const { settings, complaints } = readEnvironment(process.env);
    for (const complaint of complaints) host.log.warn({}, complaint);
    if (settings === undefined) return {};
    // Imported only if it is used, to save memory and start time.
    const { startTracing } = await import("./tracing.ts");
    return startTracing(settings, host);
  },
});
