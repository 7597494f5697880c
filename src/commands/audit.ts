/** `sluice audit`: prints who changed what in the accounts, also while a gateway runs on the same store. */
import { listChanges } from "../accounts/change-log.ts";
import { notFound } from "../accounts/failed.ts";
import { changeJson } from "../accounts/json.ts";
import { findWorkspace } from "../accounts/workspaces.ts";
import type { ChangeJson } from "../plugin.ts";
import { withAccounts } from "./accounts.ts";
import { UsageError, type Command } from "./command.ts";
import { text } from "./option.ts";

/** Changes read at once: there may be years of them. */
const changesPerRead = 1_000;

export const audit: Command = {
  summary: "print who changed what",
  help: `usage: sluice audit [--workspace ID] [--after N]

Prints every change of workspaces, keys and models on a line of its own, oldest first: when, who, what and how. Nothing in
it is ever changed or removed.

--workspace ID    of that workspace and its keys only
--after N         only what came after the change with this number
--json            a JSON document a line
--config FILE     the pipeline.yaml that names the data folder`,
  options: {
    workspace: { type: "string" },
    after: { type: "string" },
  },
  async run(context, values, [extra]) {
    if (extra !== undefined) throw new UsageError(`audit: unexpected argument "${extra}"`);
    const workspaceId = text(values, "workspace");
    const from = text(values, "after") ?? "0";
    if (!/^\d{1,15}$/.test(from)) {
      throw new UsageError(`--after: "${from}" is not the number of a change`);
    }
    return withAccounts(context, ({ db }) => {
      if (workspaceId !== undefined && findWorkspace(db, workspaceId) === undefined) {
        return notFound("workspace", workspaceId);
      }
      let after = Number(from);
      for (;;) {
        const changes = listChanges(db, { workspaceId, after, limit: changesPerRead });
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
