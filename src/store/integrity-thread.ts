/** A thread that checks databases one by one, and posts the errors of the damaged ones at the end. */
import { parentPort, workerData } from "node:worker_threads";
import { damageOf } from "./integrity.ts";

/** The error of a damaged database. */
export interface Damage {
  readonly message: string;
  readonly remedy: string;
}

/** Only src/gateway/check-data-folder.ts starts this thread, with the paths of the files. */
const files = workerData as readonly string[];

const found = files.flatMap((file): Damage[] => {
  const damage = damageOf(file);
  return damage === undefined ? [] : [{ message: damage.message, remedy: damage.remedy }];
});
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
parentPort?.postMessage(found);
