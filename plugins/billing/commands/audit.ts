import { optionText, UsageError, type Command } from "sluice-gateway/internal/module";
import type { ChangeJson } from "sluice-gateway/services";
import { notFound } from "../accounts/decision.ts";
import { changeJson } from "../accounts/json.ts";
import { withAccounts } from "./accounts.ts";

/** Maximum number of changes per read, because the log may contain the changes of years. */
const changesPerRead = 1_000;

export const audit: Command = {
  summary: "print the audit log: who changed what, and when",
  help: `usage: sluice audit [--workspace ID] [--after N]

Prints every change to workspaces, keys and models, one per line, oldest first: its number, time, actor, action, the ids
of the workspace and key, and details. Entries are never changed or removed.

--workspace ID    print only changes to this workspace and its keys
--after N         print only changes after change number N
--json            print one JSON document per line
--config FILE     path of pipeline.yaml, which has the data folder`,
  options: {
    workspace: { type: "string" },
    after: { type: "string" },
  },
  async run(context, values, [extra]) {
    if (extra !== undefined) throw new UsageError(`unexpected argument "${extra}"`);
    const workspaceId = optionText(values, "workspace");
    const from = optionText(values, "after") ?? "0";
    if (!/^\d{1,15}$/.test(from)) {
      throw new UsageError(`--after: expected the number of a change, got "${from}"`);
    }
    return withAccounts(context, async ({ store }) => {
      if (workspaceId !== undefined && (await store.findWorkspace(workspaceId)) === undefined) {
        return notFound("workspace", workspaceId);
      }
      let after = Number(from);
      for (;;) {
        const changes = await store.changes({ workspaceId, after, limit: changesPerRead });
        for (const change of changes) {
          const json = changeJson(change);
          context.print(context.json ? JSON.stringify(json) : line(json));
          after = change.id;
        }
        if (changes.length < changesPerRead) return undefined;
      }
    });
  },
};

function line(change: ChangeJson): string {
  const { id, time, actor, action, workspace_id: workspace, key_id: key, details } = change;
  const what = [workspace, key].filter((each) => each !== undefined).join(" ");
  return `${id}  ${time}  ${actor}  ${action}  ${what === "" ? "-" : what}  ${JSON.stringify(details)}`;
}
