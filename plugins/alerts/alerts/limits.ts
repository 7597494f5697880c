/**
 * Finds the limits that are nearly used up: the plan of a workspace, and the windows of a key. Only keys with new
 * charges are checked. Claims ensure that all gateways together report a threshold only once per period.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { Clock, Host } from "sluice-gateway/plugin";
import type { Accounts, Metering, Workspace } from "sluice-gateway/services";
import { cut, type Alert } from "./event.ts";

export interface LimitDeps {
  readonly accounts: Pick<Accounts, "admin">;
  readonly metering: Pick<Metering, "usage" | "keyWindows" | "workspaceUsage" | "purchasedLeft">;
  readonly claims: Host["claims"];
  readonly clock: Clock;
}

const thresholds = [50, 80, 95] as const;
const dayMs = 86_400_000;
/** Maximum time in milliseconds for which a check blocks other work of the gateway. One key can take longer. */
const sliceMs = 5;
/** Maximum number of keys with charges of today or yesterday that are checked: those with the largest charges. */
const maxKeys = 10_000;

interface LimitUse {
  readonly scope: "plan" | "30d" | "24h";
  readonly workspaceId: string;
  readonly key?: { readonly id: string; readonly name: string };
  readonly usedMilliCu: number;
  readonly limitMilliCu: number | undefined;
}

export class LimitWatch {
  readonly #deps: LimitDeps;
  #usedByKey: ReadonlyMap<string, number> = new Map();
  /** The thresholds of this day or month that were reported, by any gateway. */
  readonly #reported = new Map<string, number>();

  constructor(deps: LimitDeps) {
    this.#deps = deps;
  }

  /** Rejects with a StoreError if a store cannot be read. */
  async look(report: (alert: Alert) => void): Promise<void> {
    const { metering, clock, accounts } = this.#deps;
    const now = clock.now();
    for (const [id, until] of this.#reported) if (until <= now) this.#reported.delete(id);
    const today = Math.floor(now / dayMs) * dayMs;
    const range = { from: today - dayMs, to: today + dayMs };
    const answer = await metering.usage.spend({
      ...range,
      workspaceId: undefined,
      by: "key",
      limit: maxKeys,
    });
    if (answer.kind !== "done") return;
    const used = new Map(answer.spend.groups.map((group) => [group.name ?? "", group.usedMilliCu]));
    const changed = [...used].filter(([id, sum]) => this.#usedByKey.get(id) !== sum);
    const workspaces = new Set<string>();
    const pauses = new Pauses();
    for (const [id] of changed) {
      await pauses.next();
      const key = await accounts.admin.findKey(id);
      if (key === undefined) continue;
      const { workspaceId, name, cuLimit24hMilli, cuLimit30dMilli } = key;
      workspaces.add(workspaceId);
      if (cuLimit24hMilli === undefined && cuLimit30dMilli === undefined) continue;
      const { day, month } = await metering.keyWindows(key);
      const about = { workspaceId, key: { id, name: cut(name) } };
      await this.#check({ ...about, scope: "24h", ...day }, report);
      await this.#check({ ...about, scope: "30d", ...month }, report);
    }
    for (const id of workspaces) {
      await pauses.next();
      const workspace = await accounts.admin.findWorkspace(id);
      if (workspace !== undefined) await this.#check(await this.#plan(workspace), report);
    }
    // After a failure, the next check sees the same keys again.
    this.#usedByKey = used;
  }

  /** A plan whose overage is unlimited has no limit. */
  async #plan(workspace: Workspace): Promise<LimitUse> {
    const { metering, accounts } = this.#deps;
    const { id, plan, overageLimitCuMilli } = workspace;
    const drawn = await metering.workspaceUsage(id);
    const { includedMilliCu, overageUsdPerCu } = accounts.admin.plan(plan);
    const purchased = drawn.purchasedMilliCu + (await metering.purchasedLeft(workspace));
    const overage = overageUsdPerCu === undefined ? 0 : (overageLimitCuMilli ?? Infinity);
    const limitMilliCu = includedMilliCu + purchased + overage;
    return {
      scope: "plan",
      workspaceId: id,
      usedMilliCu: drawn.includedMilliCu + drawn.purchasedMilliCu + drawn.overageMilliCu,
      limitMilliCu: Number.isFinite(limitMilliCu) ? limitMilliCu : undefined,
    };
  }

  /** Reports the highest threshold that is newly reached. */
  async #check(use: LimitUse, report: (alert: Alert) => void): Promise<void> {
    const { scope, workspaceId, key, usedMilliCu, limitMilliCu } = use;
    if (limitMilliCu === undefined || limitMilliCu <= 0) return;
    const until = periodEnd(scope, this.#deps.claims.now());
    let reached: number | undefined;
    for (const threshold of thresholds) {
      if (100 * usedMilliCu < threshold * limitMilliCu) break;
      const id = `alert limit ${scope} ${key?.id ?? workspaceId} ${threshold} ${until}`;
      if (this.#reported.has(id)) continue;
      const isFirst = await this.#deps.claims.claim(id, until);
      this.#reported.set(id, until);
      reached = isFirst ? threshold : undefined;
    }
    if (reached === undefined) return;
    const name = key === undefined ? `workspace ${workspaceId}` : `key ${key.id}`;
    const limit = scope === "plan" ? "plan" : `limit of ${scope}`;
    report({
      type: "limit.reached",
      summary: `${name} has used ${reached} % of its ${limit}`,
      data: {
        scope,
        threshold_percent: reached,
        workspace_id: workspaceId,
        ...(key !== undefined && { key_id: key.id, key_name: key.name }),
        used_cu_milli: usedMilliCu,
        limit_cu_milli: limitMilliCu,
      },
    });
  }
}

/** Lets the gateway do other work during a long loop, because an embedded store answers at once. */
class Pauses {
  #since = performance.now();

  async next(): Promise<void> {
    if (performance.now() - this.#since < sliceMs) return;
    await turn();
    this.#since = performance.now();
  }
}

/** Returns milliseconds since 1970. */
function periodEnd(scope: LimitUse["scope"], now: number): number {
  if (scope === "24h") return (Math.floor(now / dayMs) + 1) * dayMs;
  const date = new Date(now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}
