/**
 * Digests of the settings that must be equal on all gateways with the same database. Each gateway applies its own
 * settings, so a difference is reported, but no gateway is refused because of it.
 */
import { isObject } from "../../base/is-object.ts";
import type { Migration } from "./migrations.ts";

/** A digest per section and per route of pipeline.yaml. */
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
