/** Creates a workspace and a key with the gateway's own commands, before the measured gateway starts. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";

/**
 * Returns the text of a key of an enterprise workspace. `file`: pipeline.yaml. `env`: the variables that it reads.
 * `root`: the checkout of the gateway, by default this one.
 */
export function issueKey(
  file: string,
  env: Readonly<Record<string, string>>,
  root = join(import.meta.dirname, "../.."),
): string {
  const main = join(root, "src/main.ts");
  const run = (...args: string[]): { id: string; key: string } => {
    const result = spawnSync(process.execPath, [main, ...args, "--json", "--config", file], {
      env: { ...process.env, ...env },
      encoding: "utf8",
    });
    if (result.status !== 0) throw new Error(result.stderr);
    // Both commands print this with --json.
    return JSON.parse(result.stdout) as { id: string; key: string };
  };
  const { id } = run("workspaces", "create", "--name", "bench", "--plan", "enterprise");
  return run("keys", "create", "--workspace", id).key;
}
