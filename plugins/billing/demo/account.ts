/** The account that `sluice dev` prints: one workspace, which is kept, and a new key at every start. */
import type { DemoKey } from "sluice-gateway/module";
import type { AccountsAdmin } from "sluice-gateway/services";

const workspaceName = "demo";
/** Maximum number of workspaces among which the demo workspace is searched for. It is usually the first one. */
const maxWorkspaces = 10_000;
/** Lifetime of a key. Every start creates one, so each must expire. */
const keyLifeMs = 30 * 24 * 3_600_000;

/** Finds or creates the demo workspace and issues a key for it. `now`: milliseconds since 1970. */
export async function openDemoAccount(admin: AccountsAdmin, now: number): Promise<DemoKey> {
  const by = { actor: "cli:dev", at: now };
  const existing = await admin.listWorkspaces(maxWorkspaces);
  const workspace =
    existing.find(({ name }) => name === workspaceName) ??
    (await admin.createWorkspace({ name: workspaceName, plan: "startup" }, by));
  const issued = await admin.createKey(
    {
      workspaceId: workspace.id,
      name: workspaceName,
      environment: "dev",
      // The user of `sluice dev` is the administrator and opens the dashboard with this key.
      capabilities: [...admin.defaultCapabilities, "platform:admin"],
      expiresAt: now + keyLifeMs,
    },
    by,
  );
  if ("failed" in issued) throw new Error(issued.message);
  return { group: workspace.id, text: issued.text, expiresAt: now + keyLifeMs };
}
