import { createHash } from "node:crypto";
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
  /** A digest of the text of its pipeline.yaml, to compare it with those of other gateways. */
  readonly fileDigest: string;
  /** True if the file on disk has faults, so that it was not loaded. */
  readonly isReloadRefused: boolean;
  /** Credit that it holds in reserve, in milli-CU. Undefined if it shares no credit. */
  readonly slackMilliCu: number | undefined;
  /** Credit that it holds for requests that are running, in milli-CU. */
  readonly reservedMilliCu: number | undefined;
  /** Number of workspaces and keys in which it holds credit. */
  readonly leasedScopes: number | undefined;
  readonly clockOffsetSeconds: number | undefined;
  /** Number of other gateways with other settings. Undefined without a database, and from older releases. */
  readonly otherSettings: number | undefined;
}

export type HealthGateways = AllGateways<undefined, GatewayHealth>;

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
    fileDigest: createHash("sha256").update(running.file.text).digest("hex"),
    isReloadRefused: metric("sluice_reload_failed") === 1,
    slackMilliCu: metric("sluice_lease_slack_cu_milli"),
    reservedMilliCu: metric("sluice_lease_reserved_cu_milli"),
    leasedScopes: metric("sluice_lease_scopes"),
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
  const running = gateway.running();
  const { ready, checks, generation, reload, backends } = running;
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
    // With several threads, each calls the nodes. The metric is their sum.
    node_calls: running.metric("sluice_ledger_node_in_flight").map(({ labels, value }) => ({
      ...labels,
      in_flight: value,
    })),
    heads: detailsOf("head"),
    upstreams: detailsOf("upstream"),
    networks: detailsOf("network"),
    ...(own?.name !== undefined && {
      gateways: parts.map((part) => gatewayJson(part, own)),
      complete: isComplete,
    }),
  };
}

function processState(): Pick<GatewayHealth, "uptimeSeconds" | "memoryBytes"> {
  return {
    uptimeSeconds: Math.floor(process.uptime()),
    memoryBytes: process.memoryUsage.rss(),
  };
}

function gatewayJson(
  { name, version, isOwn, value, heardMsAgo }: GatewayPart<GatewayHealth>,
  own: GatewayPart<GatewayHealth>,
): object {
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
      same_file: value.fileDigest === own.value?.fileDigest,
      reload_refused: value.isReloadRefused,
      slack_cu_milli: value.slackMilliCu,
      reserved_cu_milli: value.reservedMilliCu,
      leased_scopes: value.leasedScopes,
      clock_offset_seconds: value.clockOffsetSeconds,
      other_settings: value.otherSettings,
    }),
  };
}
