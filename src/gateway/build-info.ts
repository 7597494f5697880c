/** The metric that names the running release. */
import type { Metrics } from "../plugin.ts";
import { version } from "../base/version.ts";

export function countBuild(metrics: Metrics): void {
  metrics
    .gauge(
      "sluice_build_info",
      "Always 1. The labels contain the versions of Sluice and Node.",
      ["version", "node"],
      { isSameInThreads: true },
    )
    .with({ version, node: process.versions.node })
    .set(1);
}
