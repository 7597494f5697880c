import type { Plan, SpendAmounts, SpendGroup, SpendMember } from "sluice-gateway/services";
import { valueUsd } from "./money.ts";
import type { DashboardDeps } from "./deps.ts";

/** `usdPerCu`: undefined if the plan has no overage. */
interface OveragePrice {
  readonly usdPerCu: Plan["overageUsdPerCu"];
}

export interface GroupNames {
  /** Undefined for groups that are named by their id. */
  title(id: string | undefined): string | undefined;
  /** Undefined if the group has charges of several plans. */
  price(id: string | undefined): OveragePrice | undefined;
}

interface Wanted {
  readonly by: SpendMember;
  readonly workspaceId: string | undefined;
}

/** Above this number of groups, all workspaces or keys are read at once. */
const maxSingle = 100;

export async function namesOf(
  deps: DashboardDeps,
  { by, workspaceId }: Wanted,
  groups: readonly SpendGroup[],
): Promise<GroupNames> {
  const own = workspaceId === undefined ? undefined : await priceOf(deps, workspaceId);
  if (by !== "workspace" && by !== "key") {
    return { title: () => undefined, price: () => own };
  }
  const ids = groups.flatMap(({ name }) => (name === undefined ? [] : [name]));
  const found =
    by === "workspace" ? await workspacesOf(deps, ids) : await keysOf(deps, workspaceId, ids);
  return {
    title: (id = "") => found.get(id)?.title,
    price: (id = "") => own ?? found.get(id)?.price,
  };
}

type Found = ReadonlyMap<
  string,
  { readonly title: string; readonly price: OveragePrice | undefined }
>;

async function workspacesOf(deps: DashboardDeps, ids: readonly string[]): Promise<Found> {
  const { admin } = deps.accounts;
  const workspaces =
    ids.length > maxSingle
      ? await admin.listWorkspaces(Number.MAX_SAFE_INTEGER)
      : (await Promise.all(ids.map(async (id) => admin.findWorkspace(id)))).filter(
          (workspace) => workspace !== undefined,
        );
  return new Map(
    workspaces.map(({ id, name, plan }) => [
      id,
      { title: name, price: { usdPerCu: admin.plan(plan).overageUsdPerCu } },
    ]),
  );
}

async function keysOf(
  deps: DashboardDeps,
  workspaceId: string | undefined,
  ids: readonly string[],
): Promise<Found> {
  const { admin } = deps.accounts;
  const search = { workspaceId, text: "", activeAt: undefined, limit: Number.MAX_SAFE_INTEGER };
  const keys =
    ids.length > maxSingle
      ? (await admin.searchKeys(search)).map(({ key }) => key)
      : (await Promise.all(ids.map(async (id) => admin.findKey(id)))).filter(
          (key) => key !== undefined,
        );
  const known = new Set(ids);
  const shown = keys.filter(({ id }) => known.has(id));
  const workspaces = await workspacesOf(deps, [...new Set(shown.map((key) => key.workspaceId))]);
  return new Map(
    shown.map((key) => [
      key.id,
      { title: key.name, price: workspaces.get(key.workspaceId)?.price },
    ]),
  );
}

export async function priceOf(
  { accounts: { admin } }: DashboardDeps,
  workspaceId: string,
): Promise<OveragePrice | undefined> {
  const workspace = await admin.findWorkspace(workspaceId);
  return workspace && { usdPerCu: admin.plan(workspace.plan).overageUsdPerCu };
}

/** `value_usd` is the credit at 1,000,000 CU per USD. */
export function amountsJson(sum: SpendAmounts) {
  return {
    calls: sum.calls,
    used_cu_milli: sum.usedMilliCu,
    included_cu_milli: sum.includedMilliCu,
    purchased_cu_milli: sum.purchasedMilliCu,
    overage_cu_milli: sum.overageMilliCu,
    input_tokens: sum.inputTokens,
    output_tokens: sum.outputTokens,
    cached_tokens: sum.cachedTokens,
    reasoning_tokens: sum.reasoningTokens,
    value_usd: valueUsd(sum.usedMilliCu),
  };
}
