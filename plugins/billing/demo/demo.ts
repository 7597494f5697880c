/** The account that `sluice dev` prints: one workspace, which is kept, and a new key at every start. */
import { systemClock, type Demo, type DemoKey } from "sluice-gateway/internal/module";
import type { AccountsAdmin } from "sluice-gateway/services";

const workspaceName = "demo";
/** Maximum number of workspaces among which the demo workspace is searched for. It is usually the first one. */
const maxWorkspaces = 10_000;
/** Lifetime of a key. Every start creates one, so each must expire. */
const keyLifeMs = 30 * 24 * 3_600_000;

export const demo: Demo = {
  help: { text: 'Creates the workspace "demo" with an API key, which the example requests use.' },

  createKey(gateway) {
    const accounts = gateway.use("accounts");
    if (accounts === undefined) throw new Error("the service `accounts` does not run");
    return openDemoAccount(accounts.admin, systemClock.now());
  },

  describe({ key }) {
    if (key === undefined) return { position: 4, lines: [], json: {} };
    const { group, text, expiresAt } = key;
    const until = new Date(expiresAt).toISOString();
    return {
      position: 4,
      lines: [["key", `${text} (valid until ${until.slice(0, 10)})`]],
      json: { workspace_id: group, key: text, key_expires_at: until },
    };
  },
};

async function openDemoAccount(admin: AccountsAdmin, now: number): Promise<DemoKey> {
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
