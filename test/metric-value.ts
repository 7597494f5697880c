import type { RenderedMetrics } from "../src/base/metrics.ts";

/** Returns the value of a series, such as `name{label="x"}`. Undefined if there is none. */
export function metricValue(
  metrics: Pick<RenderedMetrics, "read">,
  series: string,
): number | undefined {
  const family = series.slice(0, series.indexOf("{")).replace(/_count$/, "");
  for (const { metricName, labels, value } of metrics.read(family)) {
    const pairs = Object.entries(labels).map(([label, text]) => `${label}="${text}"`);
    if (`${metricName}{${pairs.join(",")}}` === series) return value;
  }
  return undefined;
}
