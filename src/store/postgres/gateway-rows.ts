/** Rows of the table `sluice.gateways`, in which gateways with the same database read about each other. */
import { isObject } from "../../base/is-object.ts";
import type { RunSql } from "../../contract/sql.ts";
import { number, text } from "../row.ts";
import type { Migration } from "./migrations.ts";

/**
 * Digests of the settings that must be equal on all gateways, per section and per route of pipeline.yaml. Each gateway
 * applies its own settings, so a difference is reported, but no gateway is refused because of it.
 */
export type SettingsDigests = Readonly<Record<string, string>>;

/** Gateways of older releases write no digests. */
export const settingsMigration: Migration = {
  name: "settings of gateways",
  sql: "ALTER TABLE sluice.gateways ADD COLUMN settings jsonb NOT NULL DEFAULT '{}'",
};

/** A gateway that has been silent for longer is not compared. */
const silentMs = 5_000;

/** Returns an expression for the running gateways with other settings, as a JSON array of `OtherSettings`. */
export const selectOtherSettings = (ownId: string, ownSettings: string): string => `(
  SELECT coalesce(jsonb_agg(jsonb_build_object('name', name, 'settings', settings) ORDER BY name, id), '[]')
  FROM sluice.gateways
  WHERE id <> ${ownId} AND settings <> ${ownSettings}::jsonb AND sluice.now_ms() - heard_at < ${silentMs})`;

export interface OtherSettings {
  readonly name: string;
  readonly settings: unknown;
}

export interface Difference {
  readonly gateways: readonly string[];
  readonly sections: readonly string[];
}

export function differenceFrom(
  own: SettingsDigests,
  others: readonly OtherSettings[],
): Difference | undefined {
  const gateways: string[] = [];
  const sections = new Set<string>();
  for (const { name, settings: theirs } of others) {
    if (!isObject(theirs)) continue;
    // Another release may have other sections, and another gateway other routes, which cannot be compared.
    const differing = Object.entries(theirs).filter(
      ([section, digest]) => Object.hasOwn(own, section) && own[section] !== digest,
    );
    if (differing.length === 0) continue;
    gateways.push(name);
    for (const [section] of differing) sections.add(section);
  }
  if (gateways.length === 0) return undefined;
  return { gateways, sections: [...sections].toSorted() };
}

export interface GatewayMark {
  readonly name: string;
  /** 0 if it has not shown the mark yet. */
  readonly mark: number;
  /** Time since the last heartbeat of the gateway, which sends one every second. */
  readonly silentMs: number;
}

/** Returns the marks of the gateways that have sent a heartbeat in the last ten minutes and have not been stopped. */
export async function gatewayMarks(query: RunSql, mark: string): Promise<readonly GatewayMark[]> {
  const rows = await query(
    `SELECT name, coalesce(CAST(marks ->> $1 AS bigint), 0) AS mark, sluice.now_ms() - heard_at AS silent_ms
     FROM sluice.gateways ORDER BY name, id`,
    [mark],
  );
  return rows.map((row) => ({
    name: text(row, "name"),
    mark: number(row, "mark"),
    silentMs: number(row, "silent_ms"),
  }));
}
