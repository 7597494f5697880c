/** Reports the state of every node and worker, and of the process itself. */
import type { DashboardParts } from "./parts.ts";

export function health({ gateway }: DashboardParts): object {
  const { ready, checks, generation, reload, backends } = gateway.running();
  const detailsOf = (kind: string): (object | undefined)[] =>
    backends.flatMap((backend) => (backend.kind === kind ? [backend.details] : []));
  return {
    ready,
    checks,
    reload: { generation, ...reload },
    process: {
      uptime_seconds: Math.floor(process.uptime()),
      memory_bytes: process.memoryUsage.rss(),
    },
    ledgers: detailsOf("ledger"),
    upstreams: detailsOf("upstream"),
    networks: detailsOf("network"),
  };
}
