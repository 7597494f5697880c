/** The account that `sluice dev` prints: one workspace, which is kept, and a new key at every start. */
import type { DemoKey } from "sluice-gateway/module";
import { createKey } from "../accounts/keys.ts";
import { openAccountsDatabase } from "../accounts/schema.ts";
import { defaultCapabilities } from "../accounts/plans.ts";
import { createWorkspace, listWorkspaces } from "../accounts/workspaces.ts";

const workspaceName = "demo";
/** Lifetime of a key. Every start creates one, so each must expire. */
const keyLifeMs = 30 * 24 * 3_600_000;

/**
 * Finds or creates the demo workspace in a data folder and issues a key for it. A gateway may run on the same folder.
 */
export function openDemoAccount(dataDir: string, now: number): DemoKey {
  const db = openAccountsDatabase(dataDir);
  try {
    const by = { actor: "cli:dev", at: now };
    const workspace =
      listWorkspaces(db).find(({ name }) => name === workspaceName) ??
      createWorkspace(db, { name: workspaceName, plan: "startup" }, by);
    const issued = createKey(
      db,
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
    return { workspaceId: workspace.id, text: issued.text, expiresAt: now + keyLifeMs };
  } finally {
    db.close();
  }
}
