/** The metric that names the running release. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createMetrics } from "../../src/base/metrics.ts";
import { countBuild } from "../../src/gateway/gateway.ts";
import { version } from "../../src/base/version.ts";

test("sluice_build_info is 1 and names the release and its Node", async () => {
  const metrics = createMetrics();
  countBuild(metrics);
  const line = `sluice_build_info{version="${version}",node="${process.versions.node}"} 1`;
  assert.ok((await metrics.render()).split("\n").includes(line));
});
