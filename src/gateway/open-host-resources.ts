/** Opens the resources that outlive every generation: the data folder, claims, the compute pools. */
import { openComputePool } from "../compute/pool.ts";
import type { Config } from "../config/config.ts";
import { createMetrics, type RenderedMetrics } from "../metrics.ts";
import type { ClosingStack } from "../pipeline/load/closer.ts";
import { KeptParts } from "../pipeline/load/kept-parts.ts";
import type { HostResources } from "../pipeline/load/host-resources.ts";
import type { Clock, GatewayInfo, Log } from "../plugin.ts";
import { openClaims } from "../store/claims.ts";
import { lockStore } from "../store/lock.ts";
import { createSeal, keptSecret } from "../store/seal.ts";

export interface OpenHostResources extends HostResources {
  readonly metrics: RenderedMetrics;
}

/**
 * Everything opened is closed through `stack`, in reverse order. Throws StoreError when the data folder cannot be used,
 * or when another gateway uses it.
 */
export function openHostResources(
  config: Config,
  {
    clock,
    log,
    gateway,
  }: { readonly clock: Clock; readonly log: Log; readonly gateway: GatewayInfo },
  stack: ClosingStack,
): OpenHostResources {
  const metrics = createMetrics();
  const shared = { clock, log, metrics };
  const { data: dataDir } = config.store;
  stack.use(lockStore(dataDir));
  const parts = new KeptParts();
  stack.defer(() => parts.close(stack.closer));
  const claims = openClaims(dataDir, clock);
  stack.add("claims", () => claims.close());
  const compute = openComputePool({ clock, metrics });
  stack.add("compute threads", () => compute.close());
  // A separate thread makes one report at a time, so that decoding does not wait for the sum of a month. Work that a
  // request waits for must not use it: see docs/operations.md, "Threads".
  const reports = openComputePool({ clock, metrics, threads: 1, queue: 8, timeoutMs: 30_000 });
  stack.add("threads of usage reports", () => reports.close());
  const seal = createSeal(config.secret ?? keptSecret(dataDir));
  return {
    ...shared,
    claims,
    endings: claims,
    seal,
    store: { folder: dataDir },
    compute: { run: (job) => compute.run(job), background: reports },
    parts,
    gateway,
  };
}
