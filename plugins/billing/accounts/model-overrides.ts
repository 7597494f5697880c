/** Changes of operators to the model catalogues of inference networks: PUT /v1/admin/confidential/{network}/models. */
import type { RunSql } from "sluice-gateway/plugin";
import type { AccountStore, Overrides } from "./account-store.ts";
import { recordChanges } from "./change-log.ts";
import type { JoinedSql } from "./joined-sql.ts";
import { overrideColumns, overridesFromRows } from "./rows.ts";
import { insertRow } from "./row-statements.ts";

export async function readOverrides(run: RunSql): Promise<Overrides> {
  return overridesFromRows(
    await run("SELECT * FROM sluice.model_overrides ORDER BY network, place"),
  );
}

export function modelOverrides(
  sql: JoinedSql,
): Pick<AccountStore, "overrides" | "replaceOverrides"> {
  return {
    overrides: () => readOverrides(sql.query),
    replaceOverrides: (network, models, by) =>
      sql.transaction(async (run) => {
        // The log is written first, because its lock makes other replacements wait.
        await recordChanges(run, by, [{ action: "network.models", details: { network, models } }]);
        await run("DELETE FROM sluice.model_overrides WHERE network = $1", [network]);
        for (const [place, model] of models.entries()) {
          await insertRow(run, "model_overrides", overrideColumns(network, place, model));
        }
      }),
  };
}
