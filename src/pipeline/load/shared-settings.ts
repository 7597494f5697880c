/** Digests of the settings that must be equal on all gateways with the same database. */
import { createHash } from "node:crypto";
import { canonicalJson } from "../../base/canonical-json.ts";
import { routeTitle } from "../../config/check.ts";
import type { Config, StepUse } from "../../config/config.ts";
import type { SettingsDigests } from "../../store/postgres/gateway-rows.ts";
import { shippedModules } from "./modules.ts";

/** Each route has a digest of its own, so that gateways with different routes are compared in those that they share. */
export async function sharedSettings({
  environment,
  sections,
  routes,
  unmatched,
}: Pick<Config, "environment" | "sections" | "routes" | "unmatched">): Promise<SettingsDigests> {
  const { sharedSettings: ofModules } = await shippedModules();
  const settings = Object.assign(
    { environment, unmatched: unmatched.map(stepSettings) },
    ...ofModules.map((own) => own(sections)),
  ) as object;
  const ofRoutes = routes.map((route) => {
    const methods = route.methods.toSorted();
    return [`route ${routeTitle({ ...route, methods })}`, route.run.map(stepSettings)] as const;
  });
  return Object.fromEntries(
    [...Object.entries(settings), ...ofRoutes].map(([name, value]) => [name, digestOf(value)]),
  );
}

function stepSettings({ name, options, mode, when, timeoutMs, onError }: StepUse): object {
  return { name, options, mode, when, timeoutMs, onError };
}

/** Settings are JSON, so they have canonical text. */
function digestOf(value: unknown): string {
  const text = canonicalJson(value ?? null) ?? "";
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
