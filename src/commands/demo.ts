import type { Demo } from "../demo.ts";
import { shippedModules } from "../pipeline/load/modules.ts";

type Environment = Readonly<Record<string, string | undefined>>;

export async function loadDemos(): Promise<readonly Demo[]> {
  const { demos } = await shippedModules();
  return Promise.all(demos.map((load) => load()));
}

export async function startDemos(
  env: Environment,
  started: AsyncDisposableStack,
): Promise<{ readonly demos: readonly Demo[]; readonly env: Environment }> {
  const demos = await loadDemos();
  const set: Record<string, string | undefined> = {};
  for (const demo of demos) Object.assign(set, await demo.start?.(env, started));
  return { demos, env: set };
}
