/** The account that `sluice dev` prints: one workspace, which is kept, and a new key at every start. */
import type { DemoKey } from "sluice-gateway/module";
import type { Clock } from "sluice-gateway/plugin";
import { openAccountStore } from "../accounts/embedded/embedded-account-store.ts";
import { defaultCapabilities } from "../accounts/plans.ts";

const workspaceName = "demo";
/** Lifetime of a key. Every start creates one, so each must expire. */
const keyLifeMs = 30 * 24 * 3_600_000;

/**
 * Finds or creates the demo workspace in a data folder and issues a key for it. A gateway may run on the same folder.
 */
export async function openDemoAccount(
  dataDir: string,
  clock: Pick<Clock, "now" | "after">,
): Promise<DemoKey> {
  const store = openAccountStore(dataDir, clock);
  try {
    const now = clock.now();
    const by = { actor: "cli:dev", at: now };
    const existing = await store.listWorkspaces();
    const workspace =
      existing.find(({ name }) => name === workspaceName) ??
      (await store.createWorkspace({ name: workspaceName, plan: "startup" }, by));
    const issued = await store.createKey(
      {
        workspaceId: workspace.id,
        name: workspaceName,
        environment: "dev",
        // The user of `sluice dev` is its administrator and opens the dashboard with this key.
        capabilities: [...defaultCapabilities, "platform:admin"],
        expiresAt: now + keyLifeMs,
      },
      by,
    );
    if ("failed" in issued) throw new Error(issued.message);
    return { group: workspace.id, text: issued.text, expiresAt: now + keyLifeMs };
  } finally {
    await store.close();
  }
}
