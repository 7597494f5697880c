/** Reports the state of every node and worker, of the process itself, and of all gateways on the same database. */
import type { GatewayInfo } from "sluice-gateway/plugin";
import { readyState } from "./live.ts";
import type { AllGateways, GatewayPart } from "./other-gateways.ts";

/** The state of one gateway. Gateways send it to each other. */
export interface GatewayHealth {
  readonly ready: boolean;
  readonly wrong: readonly string[];
  readonly uptimeSeconds: number;
  readonly memoryBytes: number;
  readonly generation: number;
  /** True if the gateway reaches the store. Undefined without the store. */
  readonly postgres: boolean | undefined;
  readonly redis: boolean | undefined;
  /** Credit that it holds in reserve, in milli-CU. Undefined if it shares no credit. */
  readonly slackMilliCu: number | undefined;
  /** Difference between the clock of the database and its own. */
  readonly clockOffsetSeconds: number | undefined;
  /** Number of other gateways with other settings. Undefined without a database, and from older releases. */
  readonly otherSettings: number | undefined;
}

export type HealthGateways = AllGateways<undefined, GatewayHealth>;

/** Returns the state of this gateway. */
export function gatewayHealth(gateway: GatewayInfo): GatewayHealth {
  const running = gateway.running();
  const metric = (name: string): number | undefined => running.metric(name)[0]?.value;
  const isUp = (name: string): boolean | undefined => {
    const value = metric(name);
    return value === undefined ? undefined : value === 1;
  };
  return {
    ...readyState(running),
    ...processState(),
    generation: running.generation,
    postgres: isUp("sluice_store_postgres_up"),
    redis: isUp("sluice_store_redis_up"),
    slackMilliCu: metric("sluice_lease_slack_cu_milli"),
    clockOffsetSeconds: metric("sluice_clock_offset_seconds"),
    otherSettings: metric("sluice_gateways_with_other_settings"),
  };
}

export async function health({
  gateway,
  healthGateways,
}: {
  readonly gateway: GatewayInfo;
  readonly healthGateways: HealthGateways;
}): Promise<object> {
  const { ready, checks, generation, reload, backends } = gateway.running();
  const detailsOf = (kind: string): (object | undefined)[] =>
    backends.flatMap((backend) => (backend.kind === kind ? [backend.details] : []));
  const { uptimeSeconds, memoryBytes } = processState();
  const { parts, isComplete } = await healthGateways.ask(undefined);
  const [own] = parts;
  return {
    ready,
    checks,
    reload: { generation, ...reload },
    process: { uptime_seconds: uptimeSeconds, memory_bytes: memoryBytes },
    ledgers: detailsOf("ledger"),
    upstreams: detailsOf("upstream"),
    networks: detailsOf("network"),
    ...(own?.name !== undefined && { gateways: parts.map(gatewayJson), complete: isComplete }),
  };
}

function processState(): Pick<GatewayHealth, "uptimeSeconds" | "memoryBytes"> {
  return {
    uptimeSeconds: Math.floor(process.uptime()),
    memoryBytes: process.memoryUsage.rss(),
  };
}

function gatewayJson({
  name,
  version,
  isOwn,
  value,
  heardMsAgo,
}: GatewayPart<GatewayHealth>): object {
  return {
    name,
    version,
    own: isOwn,
    heard_seconds_ago: Math.round(heardMsAgo / 1000),
    state: value === undefined ? "no answer" : value.ready ? "ready" : "not ready",
    ...(value !== undefined && {
      wrong: value.wrong,
      uptime_seconds: value.uptimeSeconds,
      memory_bytes: value.memoryBytes,
      generation: value.generation,
      postgres: value.postgres,
      redis: value.redis,
      slack_cu_milli: value.slackMilliCu,
      clock_offset_seconds: value.clockOffsetSeconds,
      other_settings: value.otherSettings,
    }),
  };
}
