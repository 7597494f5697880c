import { parentPort, workerData } from "node:worker_threads";
import { damagesOf } from "./integrity.ts";

/** Only src/gateway/check-data-folder.ts starts this thread, with the paths of the files. */
const files = workerData as readonly string[];

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- parentPort is not a window
parentPort?.postMessage(damagesOf(files));
