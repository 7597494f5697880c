/** Metrics of each tool. Only names of catalogued tools are label values, never text from clients. */
import type { Counter, Histogram, Metrics } from "sluice-gateway/plugin";

export interface ToolMetrics {
  readonly succeeded: Counter;
  readonly seconds: Histogram;
  failed(code: string): void;
}

const secondsBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 10, 30];

export function toolMetrics(metrics: Metrics, tool: string): ToolMetrics {
  const calls = metrics.counter("sluice_tool_calls_total", "Tool calls by tool and result.", [
    "tool",
    "code",
  ]);
  return {
    succeeded: calls.with({ tool, code: "ok" }),
    seconds: metrics
      .histogram(
        "sluice_tool_seconds",
        "Duration of the tool calls that succeeded.",
        secondsBuckets,
        ["tool"],
      )
      .with({ tool }),
    // Codes come from the catalogue of errors, a small, fixed set.
    failed: (code) => calls.with({ tool, code }).add(1),
  };
}
