import type { PlanName, Workspace, WorkspaceAnswer, WorkspaceJson } from "sluice-gateway/services";
import { sendInvalidQuery, sendJson, sendRefusal } from "./answer.ts";
import {
  addChange,
  refused,
  refusedAs,
  type Author,
  type ChangeWork,
  type Outcome,
} from "./change.ts";
import { body, pageOf, queryOf, type ReadBody } from "./input.ts";
import type { DashboardDeps } from "./deps.ts";
import type { AddRoute, Handler } from "./route.ts";
import { largestShare, readRows } from "./rows-by-use.ts";
import { isOutside } from "./session.ts";
import { monthOf } from "./spend-plan.ts";

const maxWorkspaces = 50;
const maxChoices = 500;
const maxChanges = 100;
const maxTextLength = 100;

const plan = { enum: ["free", "developer", "startup", "enterprise"] };
const amount = { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER };
const limit = {
  anyOf: [{ type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }, { type: "null" }],
};

interface WantedWorkspace {
  readonly name: string;
  readonly plan: PlanName;
  readonly overage_limit_cu_milli?: number;
}

interface Settings {
  readonly plan?: PlanName;
  readonly overage_limit_cu_milli?: number | null;
}

const isNew = body<WantedWorkspace>(["name", "plan"], {
  name: { type: "string", minLength: 1, maxLength: 200, format: "printable" },
  plan,
  overage_limit_cu_milli: limit.anyOf[0],
});
const isSettings = body<Settings>([], { plan, overage_limit_cu_milli: limit });
const isPlan = body<{ readonly plan: PlanName }>(["plan"], { plan });
const isAmount = body<{ readonly amount_cu_milli: number }>(["amount_cu_milli"], {
  amount_cu_milli: amount,
});
const isNothing = body<object>([], {});

export function workspaceRoutes(add: AddRoute, deps: DashboardDeps): void {
  const { admin, workspaces } = deps.accounts;
  add("GET", "workspaces", list(deps));
  add("GET", "changes", changes(deps));
  const change = <T>(
    path: string,
    read: ReadBody<T>,
    work: (id: string, value: T, by: Author) => Promise<Outcome>,
  ): void => {
    const found: ChangeWork = async (_, request, by) => {
      const wanted = read(request.body);
      if ("wrong" in wanted) return refused("GATEWAY_SCHEMA_VIOLATION", wanted.wrong);
      return work((request.params as { id?: string }).id ?? "", wanted.value, by);
    };
    // Here, only operators can change money and plans. Customers use the API, which asks for confirmation.
    addChange(add, deps, path, found, "platform");
  };
  const shown = async (workspace: Workspace, status: 200 | 201 = 200): Promise<Outcome> => {
    return { status, body: { workspace: await admin.workspaceJson(workspace) } };
  };
  change("workspaces", isNew, async (_, wanted, by) => {
    const { name, plan: first, overage_limit_cu_milli: overageLimitCuMilli } = wanted;
    return shown(await admin.createWorkspace({ name, plan: first, overageLimitCuMilli }, by), 201);
  });
  change("workspaces/:id/settings", isSettings, async (id, wanted, by) => {
    const overageLimitCuMilli = wanted.overage_limit_cu_milli;
    const changed = await admin.setWorkspace(id, { plan: wanted.plan, overageLimitCuMilli }, by);
    return "failed" in changed ? refusedAs(changed) : shown(changed);
  });
  change("workspaces/:id/downgrade", isPlan, async (id, { plan: lower }, by) =>
    answered(await workspaces.downgrade(id, lower, by)),
  );
  change("workspaces/:id/cancel-downgrade", isNothing, async (id, _, by) =>
    answered(await workspaces.cancelDowngrade(id, by)),
  );
  change("workspaces/:id/purchase", isAmount, async (id, { amount_cu_milli: milli }, by) =>
    answered(await workspaces.purchase(id, milli, by)),
  );
}

const refusals = {
  notFound: "GATEWAY_NOT_FOUND",
  conflict: "GATEWAY_CONFLICT",
  invalid: "GATEWAY_INVALID_PARAMS",
  unavailable: "GATEWAY_SERVICE_UNAVAILABLE",
} as const;

function answered(answer: WorkspaceAnswer<object>): Outcome {
  if (answer.kind === "done") return { status: 200, body: answer.value };
  return refused(refusals[answer.kind], "message" in answer ? answer.message : undefined);
}

function list(deps: DashboardDeps): Handler {
  return async (viewer, request, reply) => {
    const { admin } = deps.accounts;
    const query = queryOf(request.url, ["q", "sort", "page", "choices"]);
    const page = pageOf(query?.["page"]);
    const { q: text = "", sort = "newest", choices } = query ?? {};
    const isSort = ["newest", "use"].includes(sort);
    if (query === undefined || page === undefined || text.length > maxTextLength || !isSort) {
      return sendInvalidQuery(reply, "q, sort=newest or use, page and choices");
    }
    const own = viewer.workspace === undefined ? [] : [viewer.workspace];
    const { rows: workspaces, ...more } = await readRows({
      page,
      pageRows: choices === undefined ? maxWorkspaces : maxChoices,
      isByUse: sort === "use",
      search: async (range) =>
        viewer.only === undefined ? admin.searchWorkspaces({ text, ...range }) : own,
      row: (each) => workspaceRow(deps, each, choices === undefined),
      share: ({ used_cu_milli: used = 0, limit_cu_milli: total }) => largestShare([[used, total]]),
    });
    return sendJson(reply, 200, { workspaces, page, ...more });
  };
}

interface WorkspaceRow extends WorkspaceJson {
  /** Used in this calendar month (UTC), in milli-CU. */
  readonly used_cu_milli?: number;
  /** Missing if the overage is not limited. */
  readonly limit_cu_milli?: number | undefined;
}

async function workspaceRow(
  deps: DashboardDeps,
  workspace: Workspace,
  withUse: boolean,
): Promise<WorkspaceRow> {
  const { admin } = deps.accounts;
  const json = await admin.workspaceJson(workspace);
  if (!withUse) return json;
  const { drawn, limits } = await monthOf(deps, { ...workspace, plan: json.plan });
  return {
    ...json,
    used_cu_milli: drawn.includedMilliCu + drawn.purchasedMilliCu + drawn.overageMilliCu,
    limit_cu_milli: limits.total,
  };
}

function changes({ accounts: { admin } }: DashboardDeps): Handler {
  return async (viewer, request, reply) => {
    const query = queryOf(request.url, ["q", "workspace", "before"]);
    const { q: text = "", workspace, before } = query ?? {};
    const isBefore = before === undefined || /^\d{1,15}$/.test(before);
    if (query === undefined || text.length > maxTextLength || !isBefore) {
      return sendInvalidQuery(reply, "q, workspace, and before (the id of a change)");
    }
    if (isOutside(viewer, workspace)) return sendRefusal(reply, "GATEWAY_NOT_FOUND");
    const found = await admin.searchChanges({
      workspaceId: viewer.only ?? workspace,
      text,
      before: before === undefined ? undefined : Number(before),
      limit: maxChanges + 1,
    });
    return sendJson(reply, 200, {
      changes: found.slice(0, maxChanges),
      has_more: found.length > maxChanges,
    });
  };
}
