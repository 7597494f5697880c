/** Changes of operators to the model catalogues of inference networks, in PostgreSQL. */
import type { RunStatement } from "sluice-gateway/plugin";
import type { ChangeAuthor, ModelOverride } from "sluice-gateway/services";
import type { Overrides } from "../account-store.ts";
import { overrideColumns, overridesFromRows } from "../rows.ts";
import { recordChanges } from "./change-log.ts";
import { insertRow } from "./write-row.ts";

export async function readOverrides(run: RunStatement): Promise<Overrides> {
  return overridesFromRows(
    await run("SELECT * FROM sluice.model_overrides ORDER BY network, place"),
  );
}

/** Call it in a transaction. */
export async function replaceOverrides(
  run: RunStatement,
  network: string,
  models: readonly ModelOverride[],
  by: ChangeAuthor,
): Promise<void> {
  await run("DELETE FROM sluice.model_overrides WHERE network = $1", [network]);
  for (const [place, model] of models.entries()) {
    await insertRow(run, "model_overrides", overrideColumns(network, place, model));
  }
  await recordChanges(run, by, [{ action: "network.models", details: { network, models } }]);
}
