/**
 * Traces every exchange by OpenTelemetry, where its variables say that traces are wanted; else does and loads nothing.
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
    /** The exchange's own span. Not set while nothing is traced: want it, never need it. */
    trace: TraceSpan;
  }
}

export default defineStep({
  name: "trace",
  description: "Sends OpenTelemetry traces; enabled by the standard OTEL_* variables.",
  wants: { requestId: "settled", principal: "settled", charge: "settled", agent: "settled" },
  provides: { trace: "requestHeaders" },
  async start(_, host) {
    // These names are OpenTelemetry's, the same for every program on a machine; its own parts read others of them
    // there.
    const { settings, complaints } = readEnvironment(process.env);
    for (const complaint of complaints) host.log.warn({}, complaint);
    if (settings === undefined) return {};
    // Loaded here and not above: what is not used costs no memory and no time to start.
    const { startTracing } = await import("./tracing.ts");
    return startTracing(settings, host);
  },
});
