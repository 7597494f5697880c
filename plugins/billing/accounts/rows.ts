/** The columns of workspaces, keys, changes and overrides, and the statements that write and search rows. */
import {
  capabilities,
  planNames,
  type ApiKey,
  type ChangeAuthor,
  type KeyRecord,
  type ModelOverride,
  type TokenPrices,
  type Workspace,
} from "sluice-gateway/services";
import {
  number,
  oneOf,
  optionalNumber,
  optionalText,
  text,
  type Row,
  valueRows,
} from "sluice-gateway/internal/store";
import type { Change, Overrides, StoredKey } from "./account-store.ts";
import type { NewChange } from "./decision.ts";
import { environments } from "./key-text.ts";
import type { RunSql } from "sluice-gateway/plugin";

export type Columns = Readonly<Record<string, string | number | null>>;

/** Only columns that differ are updated, so that an update keeps values that this release does not know. */
export function differingColumns(before: Columns, after: Columns): Columns {
  return Object.fromEntries(
    Object.entries(after).filter(([name, value]) => before[name] !== value),
  );
}

export function workspaceFromRow(row: Row): Workspace {
  const isPending = optionalText(row, "pending_plan") !== undefined;
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    plan: oneOf(row, "plan", planNames),
    pendingPlan: isPending ? oneOf(row, "pending_plan", planNames) : undefined,
    pendingPlanAt: optionalNumber(row, "pending_plan_at"),
    purchasedTotalMilliCu: number(row, "purchased_total_cu_milli"),
    overageLimitCuMilli: optionalNumber(row, "overage_limit_cu_milli"),
    createdAt: number(row, "created_at"),
  };
}

export function workspaceColumns(workspace: Workspace): Columns {
  return {
    id: workspace.id,
    name: workspace.name,
    plan: workspace.plan,
    pending_plan: workspace.pendingPlan ?? null,
    pending_plan_at: workspace.pendingPlanAt ?? null,
    purchased_total_cu_milli: workspace.purchasedTotalMilliCu,
    overage_limit_cu_milli: workspace.overageLimitCuMilli ?? null,
    created_at: workspace.createdAt,
  };
}

/** Capabilities that this release does not know are ignored. */
function keyFromRow(row: Row): ApiKey {
  const granted = text(row, "capabilities").split(" ");
  return {
    id: text(row, "id"),
    workspaceId: text(row, "workspace_id"),
    name: text(row, "name"),
    environment: oneOf(row, "environment", environments),
    capabilities: new Set(capabilities.filter((each) => granted.includes(each))),
    rpsLimit: optionalNumber(row, "rps_limit"),
    cuLimit24hMilli: optionalNumber(row, "cu_limit_24h_milli"),
    cuLimit30dMilli: optionalNumber(row, "cu_limit_30d_milli"),
    allowedAddresses: optionalText(row, "allowed_addresses")?.split(" "),
    createdAt: number(row, "created_at"),
    expiresAt: optionalNumber(row, "expires_at"),
    revokedAt: optionalNumber(row, "revoked_at"),
  };
}

/** `row`: a row of `keys` with the column `last_used_at` of `key_use`. */
export function keyRecordFromRow(row: Row): KeyRecord {
  return {
    ...keyFromRow(row),
    lastUsedAt: optionalNumber(row, "last_used_at"),
    rotatedTo: optionalText(row, "rotated_to"),
  };
}

export function storedKeyFromRow(row: Row, workspace: Workspace): StoredKey {
  return { hash: text(row, "hash"), key: keyFromRow(row), workspace };
}

/** The columns of `keys` without `hash`. */
export function keyColumns(key: KeyRecord): Columns {
  return {
    id: key.id,
    workspace_id: key.workspaceId,
    name: key.name,
    environment: key.environment,
    capabilities: [...key.capabilities].join(" "),
    rps_limit: key.rpsLimit ?? null,
    cu_limit_24h_milli: key.cuLimit24hMilli ?? null,
    cu_limit_30d_milli: key.cuLimit30dMilli ?? null,
    allowed_addresses: key.allowedAddresses?.join(" ") ?? null,
    created_at: key.createdAt,
    expires_at: key.expiresAt ?? null,
    revoked_at: key.revokedAt ?? null,
    rotated_to: key.rotatedTo ?? null,
  };
}

export function changeFromRow(row: Row): Change {
  return {
    id: number(row, "id"),
    at: number(row, "at"),
    actor: text(row, "actor"),
    action: text(row, "action"),
    workspaceId: text(row, "workspace_id"),
    keyId: optionalText(row, "key_id"),
    details: JSON.parse(text(row, "details")) as unknown,
    requestId: optionalText(row, "request_id"),
  };
}

export function changeColumns(by: ChangeAuthor, change: NewChange): Columns {
  return {
    at: by.at,
    actor: by.actor,
    action: change.action,
    workspace_id: change.workspaceId ?? "",
    key_id: change.keyId ?? null,
    details: JSON.stringify(change.details ?? {}),
    request_id: by.requestId ?? null,
  };
}

/** `rows`: ordered by network and place. */
export function overridesFromRows(rows: readonly Row[]): Overrides {
  const networks = new Map<string, Map<string, ModelOverride>>();
  for (const row of rows) {
    const network = text(row, "network");
    const models = networks.get(network) ?? new Map<string, ModelOverride>();
    const id = text(row, "id");
    models.set(id, {
      id,
      enabled: number(row, "enabled") === 1,
      ownedBy: optionalText(row, "owned_by"),
      priceCoefficient: optionalNumber(row, "price_coefficient"),
      ...pricesFromRow(row),
    });
    networks.set(network, models);
  }
  return networks;
}

export function overrideColumns(network: string, place: number, model: ModelOverride): Columns {
  return {
    network,
    place,
    id: model.id,
    enabled: model.enabled ? 1 : 0,
    owned_by: model.ownedBy ?? null,
    price_coefficient: model.priceCoefficient ?? null,
    prices: model.prices === undefined ? null : JSON.stringify(model.prices),
  };
}

function pricesFromRow(row: Row): Pick<ModelOverride, "prices"> {
  const stored = optionalText(row, "prices");
  // Only `overrideColumns` writes this column.
  return stored === undefined ? {} : { prices: JSON.parse(stored) as TokenPrices };
}

/** `table` and the names of the columns must come from this code. */
export async function insertRow(run: RunSql, table: string, columns: Columns): Promise<void> {
  const names = Object.keys(columns);
  const statement = `INSERT INTO sluice.${table} (${names.join(", ")}) VALUES ${valueRows(1, names.length)}`;
  await run(statement, Object.values(columns));
}

export async function updateRow(
  run: RunSql,
  table: string,
  id: string,
  columns: Columns,
): Promise<void> {
  const names = Object.keys(columns);
  if (names.length === 0) return;
  const assignments = names.map((name, index) => `${name} = $${index + 2}`).join(", ");
  const statement = `UPDATE sluice.${table} SET ${assignments} WHERE id = $1`;
  await run(statement, [id, ...Object.values(columns)]);
}

export class Search {
  readonly #conditions: string[] = [];
  readonly #values: unknown[] = [];

  get values(): readonly unknown[] {
    return this.#values;
  }

  get where(): string {
    return this.#conditions.length === 0 ? "" : `WHERE ${this.#conditions.join(" AND ")}`;
  }

  mark(value: unknown): string {
    return `$${this.#values.push(value)}`;
  }

  add(value: string | number | undefined, condition: (mark: string) => string): this {
    if (value !== undefined) this.#conditions.push(condition(this.mark(value)));
    return this;
  }

  /** Adds the condition that one of the columns contains a text, in any case. */
  addText(wanted: string, ...columns: readonly string[]): this {
    if (wanted === "") return this;
    const pattern = `%${wanted.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
    const all = `lower(concat_ws('\n', ${columns.join(", ")}))`;
    return this.add(pattern, (mark) => `${all} LIKE lower(${mark}) ESCAPE '\\'`);
  }
}
