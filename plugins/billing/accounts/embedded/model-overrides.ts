/** Changes of operators to the model catalogues of inference networks: PUT /v1/admin/confidential/{network}/models. */
import type { DatabaseSync } from "node:sqlite";
import type { ChangeAuthor, ModelOverride } from "sluice-gateway/services";
import { number, optionalNumber, optionalText, text, transaction } from "sluice-gateway/store";
import type { Overrides } from "../account-store.ts";
import { recordChange } from "./change-log.ts";

export function readOverrides(db: DatabaseSync): Overrides {
  const networks = new Map<string, Map<string, ModelOverride>>();
  const rows = db.prepare("SELECT * FROM model_overrides ORDER BY network, place").all();
  for (const row of rows) {
    const network = text(row, "network");
    const models = networks.get(network) ?? new Map<string, ModelOverride>();
    const id = text(row, "id");
    models.set(id, {
      id,
      enabled: number(row, "enabled") === 1,
      ownedBy: optionalText(row, "owned_by"),
      priceCoefficient: optionalNumber(row, "price_coefficient"),
    });
    networks.set(network, models);
  }
  return networks;
}

export function replaceOverrides(
  db: DatabaseSync,
  network: string,
  models: readonly ModelOverride[],
  by: ChangeAuthor,
): void {
  transaction(db, () => {
    db.prepare("DELETE FROM model_overrides WHERE network = ?").run(network);
    const insert = db.prepare("INSERT INTO model_overrides VALUES (?, ?, ?, ?, ?, ?)");
    for (const [place, { id, enabled, ownedBy, priceCoefficient }] of models.entries()) {
      insert.run(network, place, id, enabled ? 1 : 0, ownedBy ?? null, priceCoefficient ?? null);
    }
    recordChange(db, by, { action: "network.models", details: { network, models } });
  });
}
