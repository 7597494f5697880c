/** The account that `sluice dev` hands out: one workspace that stays, and a new key at every start. */
import { createKey } from "../accounts/keys.ts";
import { openAccountsDatabase } from "../accounts/schema.ts";
import { defaultCapabilities } from "../accounts/plans.ts";
import { createWorkspace, listWorkspaces } from "../accounts/workspaces.ts";

export interface DemoAccount {
  readonly workspaceId: string;
  /** The text of the key: it exists nowhere else. */
  readonly key: string;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

const workspaceName = "demo";
/** Every start leaves a key behind; each ends by itself. */
const keyLifeMs = 30 * 24 * 3_600_000;

/** Finds or makes the workspace in a data folder and issues a key of it; a gateway may run on the folder. */
export function openDemoAccount(dataDir: string, now: number): DemoAccount {
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
        // Who runs it is its administrator: the dashboard opens with this key.
        capabilities: [...defaultCapabilities, "platform:admin"],
        expiresAt: now + keyLifeMs,
      },
      by,
    );
    if ("failed" in issued) throw new Error(issued.message);
    return { workspaceId: workspace.id, key: issued.text, expiresAt: now + keyLifeMs };
  } finally {
    db.close();
  }
}
