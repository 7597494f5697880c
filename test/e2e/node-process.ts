/** Runs a node in its own process, so that its memory, CPU time and timers do not count as those of the tests. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface NodeProcess extends AsyncDisposable {
  readonly url: string;
}

/** `file`: module next to this one, which sends the URL of its node as its only message. */
export async function startNodeProcess(file: string): Promise<NodeProcess> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), {
    env: { ...process.env, LOG_LEVEL: "error" },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  const exited = once(child, "exit");
  const started = await Promise.race([once(child, "message"), exited.then(() => undefined)]);
  if (started === undefined) throw new Error(`${file} did not start`);
  return {
    // The only message is the URL.
    url: started[0] as string,
    async [Symbol.asyncDispose]() {
      child.kill();
      await exited;
    },
  };
}
