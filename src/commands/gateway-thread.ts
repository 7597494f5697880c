/** The program of a thread that serves. */
import { workerData } from "node:worker_threads";
import { runThread } from "../gateway/threads/run-thread.ts";
import type { ThreadStart } from "../gateway/threads/thread-start.ts";
import { pluginModules } from "../pipeline/load/load.ts";
import { catchFatalErrors } from "./fatal-errors.ts";

async function run(): Promise<void> {
  const fatal = catchFatalErrors({ modules: pluginModules, part: "thread" });
  // Only src/gateway/threads/pool.ts starts this program.
  const thread = await runThread(workerData as ThreadStart);
  if (thread !== undefined) {
    fatal.drain = { stop: () => thread.fail(), limitMs: thread.limitMs };
    await thread.ended;
  }
  process.exit(thread === undefined ? 1 : 0);
}

void run();
