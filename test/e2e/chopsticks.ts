/**
 * A real runtime as a node, offline: chopsticks on the chain specification in ../shared, in a process of its own so
 * that its memory and its CPU time are not the tests'. Without ../shared its tests are skipped; with CI=true they fail.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const specsFolder = new URL("../../../shared/fixtures/specs/", import.meta.url);

/** For the `skip` option of a test. */
export const withoutSpecs: string | false =
  process.env["CI"] !== "true" && !existsSync(specsFolder)
    ? "needs ../shared/fixtures/specs"
    : false;

export interface Chopsticks extends AsyncDisposable {
  readonly url: string;
}

/** Up in about two seconds: six funded accounts, no block but the first two until `dev_newBlock`. */
export async function startChopsticks(): Promise<Chopsticks> {
  const child = fork(fileURLToPath(new URL("./chopsticks-process.ts", import.meta.url)), {
    env: { ...process.env, LOG_LEVEL: "error" },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const started = await Promise.race([once(child, "message"), exited.then(() => undefined)]);
  if (started === undefined) throw new Error("chopsticks did not start");
  return {
    // The one message of chopsticks-process.ts is its url.
    url: started[0] as string,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}
