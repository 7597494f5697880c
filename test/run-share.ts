/**
 * Makes something once for all test files of a run, such as a server. A process of its own, the keeper, makes it when the
 * first test file needs it, and removes it after the run.
 */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

/** The process whose end also ends the keepers: the test runner, or this process if there is none. */
const runId = process.env["NODE_TEST_CONTEXT"] === undefined ? process.pid : process.ppid;

const pollMs = 50;
/** Far more time than a keeper needs, even on a busy machine. */
const maxWaitMs = 600_000;
const failed = "failed: ";

/** Returns the keeper's text. `keeper`: path of a module that calls `keepForRun`. Throws if the keeper failed. */
export async function sharedInRun(keeper: string): Promise<string> {
  const name = basename(keeper, ".ts");
  const folder = join(tmpdir(), `sluice-${name}-${runId}`);
  const file = join(folder, "text");
  try {
    mkdirSync(folder);
    spawn(process.execPath, [keeper, String(runId), file], {
      detached: true,
      stdio: "ignore",
      env: { ...process.env, NODE_TEST_CONTEXT: undefined },
    }).unref();
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
  for (let waitedMs = 0; waitedMs < maxWaitMs; waitedMs += pollMs) {
    const text = readIfPresent(file);
    if (text?.startsWith(failed) === true) throw new Error(`${name} ${text}`);
    if (text !== undefined) return text;
    await wait(pollMs);
  }
  throw new Error(`${name} was not ready within ${maxWaitMs / 60_000} minutes`);
}

function readIfPresent(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

interface Kept {
  readonly text: string;
  /** Called after the run. The folder that `make` received is removed in any case. */
  readonly close?: () => PromiseLike<void>;
}

/** Runs in the keeper. `make` receives a folder for its files; it may throw. */
export async function keepForRun(make: (folder: string) => Promise<Kept>): Promise<void> {
  const [id = "", file = ""] = process.argv.slice(2);
  const folder = dirname(file);
  const kept = await make(folder).catch((error: unknown): Kept => ({
    text: failed + String(error),
  }));
  setInterval(() => {
    if (isRunning(Number(id))) return;
    rmSync(folder, { recursive: true, force: true });
    void Promise.resolve(kept.close?.()).finally(() => process.exit());
  }, 500);
  writeFileSync(`${file}.next`, kept.text);
  renameSync(`${file}.next`, file);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
