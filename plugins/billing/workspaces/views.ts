/** The views of a workspace: its state, its usage and its audit log. */
import { refuse, type Exchange, type Reply } from "sluice-gateway/plugin";
import type { UsageMember, Workspaces } from "sluice-gateway/services";
import { replyTo } from "./answer.ts";
import { instant, queryOf, wholeNumber, words } from "./query.ts";

export type ViewName = "show" | "usage" | "audit";

type View = (workspaces: Workspaces, id: string, x: Exchange) => Promise<Reply>;

export const groupMembers: readonly UsageMember[] = ["key", "surface", "method", "model", "day"];
export const defaultChanges = 100;
export const maxChanges = 1_000;

export const views: Readonly<Record<ViewName, View>> = {
  show: async (workspaces, id) => replyTo(await workspaces.find(id)),
  usage,
  audit,
};

export function isView(name: string): name is ViewName {
  return Object.hasOwn(views, name);
}

async function usage(workspaces: Workspaces, id: string, x: Exchange): Promise<Reply> {
  const query = queryOf(x.request.query, {
    from: instant,
    to: instant,
    group_by: (text) => words(text, groupMembers),
  });
  if ("wrong" in query) return refuse("GATEWAY_INVALID_PARAMS", { message: query.wrong });
  const { from, to, group_by: groupBy = [] } = query.values;
  const report = await workspaces.usage(id, { from, to, groupBy }, x.signal);
  return replyTo(report, (json) => json);
}

/** Lists changes. `next_after` is present if there may be more. */
async function audit(workspaces: Workspaces, id: string, x: Exchange): Promise<Reply> {
  const query = queryOf(x.request.query, {
    after: (text) => wholeNumber(text, 0, Number.MAX_SAFE_INTEGER),
    limit: (text) => wholeNumber(text, 1, maxChanges),
  });
  if ("wrong" in query) return refuse("GATEWAY_INVALID_PARAMS", { message: query.wrong });
  const { after = 0, limit = defaultChanges } = query.values;
  return replyTo(await workspaces.changes(id, { after, limit }), (changes) => {
    const last = changes.length === limit ? changes.at(-1) : undefined;
    const more = last === undefined ? {} : { next_after: last.id };
    return JSON.stringify({ workspace_id: id, changes, ...more });
  });
}
