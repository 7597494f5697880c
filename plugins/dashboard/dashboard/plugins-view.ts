/**
 * Reports the loaded plugins: their sources, the permissions in their manifests, and the performance of their code.
 */
import type { HookStatus, LoadedPlugin } from "sluice-gateway/plugin";
import { rounded } from "./live.ts";
import type { DashboardDeps } from "./deps.ts";

/** All counts are since the start of the process. */
export function pluginsView({ gateway }: DashboardDeps): object {
  return { plugins: gateway.running().plugins.map(pluginJson) };
}

function pluginJson({ hasGrants, hooks, ...facts }: LoadedPlugin): object {
  return { ...facts, has_grants: hasGrants, hooks: hooks.map(hookJson) };
}

function hookJson({ seconds, ...counts }: HookStatus): object {
  return { ...counts, ms: rounded(seconds * 1000) };
}
