/** Computes the digests of the settings that must be equal on all gateways with the same database. */
import { createHash } from "node:crypto";
import { canonicalJson } from "../../canonical-json.ts";
import type { Config } from "../../config/config.ts";
import type { SettingsDigests } from "../../store/postgres/gateway-settings.ts";
import { shippedModules } from "./modules.ts";

export async function sharedSettings({
  environment,
  sections,
}: Pick<Config, "environment" | "sections">): Promise<SettingsDigests> {
  const { sharedSettings: ofModules } = await shippedModules();
  const settings = Object.assign(
    { environment },
    ...ofModules.map((own) => own(sections)),
  ) as object;
  return Object.fromEntries(
    Object.entries(settings).map(([section, value]) => [section, digestOf(value)]),
  );
}

/** Settings are JSON, so they have canonical text. */
function digestOf(value: unknown): string {
  const text = canonicalJson(value ?? null) ?? "";
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
