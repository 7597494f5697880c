/**
 * Runs a real runtime as a node, offline: chopsticks with the chain specification in ../shared. It runs in its own
 * process, so that its memory and CPU time do not count as those of the tests. Without ../shared its tests are skipped;
 * with CI=true they fail.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const specsFolder = new URL("../../../shared/fixtures/specs/", import.meta.url);

/** For the option `skip` of a test. */
export const withoutSpecs: string | false =
  process.env["CI"] !== "true" && !existsSync(specsFolder)
    ? "needs ../shared/fixtures/specs"
    : false;

export interface Chopsticks extends AsyncDisposable {
  readonly url: string;
}

/**
 * Starts in about two seconds with six funded accounts. It has only its first two blocks until `dev_newBlock` is
 * called.
 */
export async function startChopsticks(): Promise<Chopsticks> {
  const child = fork(fileURLToPath(new URL("./chopsticks-process.ts", import.meta.url)), {
    env: { ...process.env, LOG_LEVEL: "error" },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const started = await Promise.race([once(child, "message"), exited.then(() => undefined)]);
  if (started === undefined) throw new Error("chopsticks did not start");
  return {
    // The only message of chopsticks-process.ts is its URL.
    url: started[0] as string,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}
