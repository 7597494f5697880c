/** Changes of operators to the model catalogues of inference networks: PUT /v1/admin/confidential/{network}/models. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, ModelOverride } from "sluice-gateway/services";
import { transaction } from "sluice-gateway/store";
import type { Overrides } from "../account-store.ts";
import { overrideColumns, overridesFromRows } from "../rows.ts";
import { recordChanges } from "./change-log.ts";
import { insertRow } from "./write-row.ts";

export function readOverrides(db: DatabaseSync): Overrides {
  return overridesFromRows(
    db.prepare("SELECT * FROM model_overrides ORDER BY network, place").all(),
  );
}

export function replaceOverrides(
  db: DatabaseSync,
  network: string,
  models: readonly ModelOverride[],
  by: ChangeAuthor,
): void {
  transaction(db, () => {
    db.prepare("DELETE FROM model_overrides WHERE network = ?").run(network);
    for (const [place, model] of models.entries()) {
      insertRow(db, "model_overrides", overrideColumns(network, place, model));
    }
    recordChanges(db, by, [{ action: "network.models", details: { network, models } }]);
  });
}
