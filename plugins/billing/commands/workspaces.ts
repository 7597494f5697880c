import {
  checkName,
  checkWord,
  requiredOption,
  runSubcommand,
  optionText,
  UsageError,
  type Command,
  type Subcommand,
} from "sluice-gateway/internal/module";
import { planNames, type Workspace, type WorkspaceJson } from "sluice-gateway/services";
import { notFound } from "../accounts/decision.ts";
import { workspaceJson } from "../accounts/json.ts";
import { printRecord, printRecords, withAccounts, type OpenAccounts } from "./accounts.ts";
import { milliCu, orNone } from "./limits.ts";

const create: Subcommand = {
  options: ["name", "plan", "overage-limit"],
  arguments: [],
  async run(context, values) {
    const wanted = {
      name: checkName(requiredOption(values, "name"), "name"),
      plan: checkWord(requiredOption(values, "plan"), planNames, "plan"),
      overageLimitCuMilli: milliCu(values, "overage-limit"),
    };
    return withAccounts(context, async (accounts) => {
      const workspace = await accounts.store.createWorkspace(wanted, accounts.by);
      printRecord(context, await shown(accounts, workspace));
      return undefined;
    });
  },
};

const list: Subcommand = {
  options: [],
  arguments: [],
  async run(context) {
    return withAccounts(context, async (accounts) => {
      const records: WorkspaceJson[] = [];
      for (const workspace of await accounts.store.listWorkspaces()) {
        records.push(await shown(accounts, workspace));
      }
      printRecords(context, records, [
        "id",
        "name",
        "plan",
        "pending_plan",
        "purchased_cu_milli",
        "overage_limit_cu_milli",
      ]);
      return undefined;
    });
  },
};

const show: Subcommand = {
  options: [],
  arguments: ["ID"],
  async run(context, _values, id = "") {
    return withAccounts(context, async (accounts) => {
      const workspace = await accounts.store.findWorkspace(id);
      if (workspace === undefined) return notFound("workspace", id);
      printRecord(context, await shown(accounts, workspace));
      return undefined;
    });
  },
};

const set: Subcommand = {
  options: ["plan", "overage-limit"],
  arguments: ["ID"],
  async run(context, values, id = "") {
    const plan = optionText(values, "plan");
    const settings = {
      plan: plan === undefined ? undefined : checkWord(plan, planNames, "plan"),
      overageLimitCuMilli: orNone(values, "overage-limit", milliCu),
    };
    if (settings.plan === undefined && settings.overageLimitCuMilli === undefined) {
      throw new UsageError("expected at least one of --plan, --overage-limit");
    }
    return withAccounts(context, async (accounts) => {
      const workspace = await accounts.store.setWorkspace(id, settings, accounts.by);
      if ("failed" in workspace) return workspace;
      printRecord(context, await shown(accounts, workspace));
      return undefined;
    });
  },
};

const purchase: Subcommand = {
  options: ["cu"],
  arguments: ["ID"],
  async run(context, values, id = "") {
    requiredOption(values, "cu");
    const amount = milliCu(values, "cu") ?? 0;
    if (amount === 0) throw new UsageError("--cu: expected an amount above 0 milli-CU");
    return withAccounts(context, async (accounts) => {
      const bought = await accounts.store.purchase(id, amount, accounts.by);
      if ("failed" in bought) return bought;
      const about = { purchase_id: bought.purchaseId, amount_cu_milli: amount };
      const workspace = await shown(accounts, bought.workspace);
      // The same JSON as the response of the HTTP route.
      if (context.json) context.print(JSON.stringify({ ...about, workspace }));
      else printRecord(context, { ...about, ...workspace });
      return undefined;
    });
  },
};

async function shown(
  { purchasedLeft, by }: OpenAccounts,
  workspace: Workspace,
): Promise<WorkspaceJson> {
  return workspaceJson(workspace, await purchasedLeft(workspace), by.at);
}

const subcommands = { create, list, show, set, purchase };

export const workspaces: Command = {
  summary: "create, list, show and change workspaces, and add purchased credit",
  help: `usage: sluice workspaces create --name NAME --plan PLAN [--overage-limit MILLI]
       sluice workspaces list
       sluice workspaces show ID
       sluice workspaces set ID [--plan PLAN] [--overage-limit MILLI|none]
       sluice workspaces purchase ID --cu MILLI

Changes take effect in a running gateway within one second.

set        changes only the options that you pass. --plan changes the plan at once, up or down, and cancels a pending
           change of the plan.
purchase   adds purchased credit, as POST /tma/workspaces/{id}/cu/purchase does.

--plan PLAN              plan of the workspace: ${planNames.join(", ")}
--overage-limit MILLI    maximum credit per month beyond the included and purchased credit, in milli-CU; none removes
                         the limit
--cu MILLI               amount to purchase, in milli-CU
--json                   print one JSON document instead of text
--config FILE            path of pipeline.yaml, which has the data folder`,
  subcommands: Object.keys(subcommands),
  options: {
    name: { type: "string" },
    plan: { type: "string" },
    "overage-limit": { type: "string" },
    cu: { type: "string" },
  },
  run: (...given) => runSubcommand("workspaces", subcommands, ...given),
};
