/**
 * Starts the published build of Sluice with a pipeline and a key that no limit stops. Operators run this build: it does
 * not strip types at the start, as a checkout does.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startPeer, type Peer } from "./process.ts";

const root = join(import.meta.dirname, "../..");
let command: readonly string[] | undefined;

export interface StartedSluice {
  readonly peer: Peer;
  readonly key: string;
  readonly headers: readonly string[];
  /** Milliseconds from the start of the process until it listens. */
  readonly readyMs: number;
}

/**
 * `folder`: for the pipeline's files. `core`: as for startPeer. `checkout`: one that has been built; by default, this
 * one is built.
 */
export async function startSluice(
  pipeline: string,
  folder: string,
  core: number | string,
  checkout?: string,
): Promise<StartedSluice> {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline);
  const key = issueKey(file, {}, checkout);
  const program =
    checkout === undefined ? builtSluice() : [process.execPath, join(checkout, "dist/src/main.js")];
  const begun = performance.now();
  const peer = await startPeer([...program, "start", "--json", "--config", file], { core });
  const readyMs = performance.now() - begun;
  return { peer, key, headers: [`authorization: Bearer ${key}`], readyMs };
}

/** The build runs once per process. Returns the command line of `sluice`. */
export function builtSluice(): readonly string[] {
  command ??= build();
  return command;
}

function build(): readonly string[] {
  execFileSync(process.execPath, [join(root, ".ci/build.ts")], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  return [process.execPath, join(root, "dist/src/main.js")];
}

/**
 * Creates an enterprise workspace before the measured gateway starts, and returns the text of a key. `file`:
 * pipeline.yaml. `env`: the variables that it reads. `checkout`: that of the gateway.
 */
export function issueKey(
  file: string,
  env: Readonly<Record<string, string>>,
  checkout = root,
): string {
  const main = join(checkout, "src/main.ts");
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
