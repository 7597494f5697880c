import { spawnSync } from "node:child_process";
import { join } from "node:path";

/**
 * Creates an enterprise workspace before the measured gateway starts, and returns the text of a key. `file`:
 * pipeline.yaml. `env`: the variables that it reads. `root`: the checkout of the gateway.
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
