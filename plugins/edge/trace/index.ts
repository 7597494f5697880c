/** Without its environment variables, the step does nothing and loads nothing. */
import { defineStep } from "sluice-gateway/plugin";
import { readEnvironment } from "./environment.ts";

export default defineStep({
  name: "trace",
  description: "Sends OpenTelemetry traces; enabled by the standard OTEL_* variables.",
  provides: { trace: "requestHeaders" },
  permissions: { body: "none" },
  async start(_, host) {
    // OpenTelemetry's variables are the same for all programs of a machine. Its SDK reads others of them itself.
    const { settings, warnings } = readEnvironment(process.env);
    for (const warning of warnings) host.log.warn({}, warning);
    if (settings === undefined) return {};
    // Imported only if it is used, to save memory and start time.
    const { startTracing } = await import("./tracing.ts");
    return startTracing(settings, host);
  },
});
