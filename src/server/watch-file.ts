/** Says when pipeline.yaml has changed on disk. */
import { watch, type FSWatcher } from "node:fs";
import { basename, dirname } from "node:path";
import type { Clock, Log } from "../plugin.ts";

/** Editors write a file in several steps: wait until it has been still for this long. */
const settleMs = 100;

/**
 * Watches the folder: editors and config maps replace the file instead of writing into it. Where the system has no
 * watch left (ENOSPC, EMFILE) the gateway runs without one.
 */
export function watchFile(
  file: string,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  changed: () => void,
): Disposable {
  let pending: Disposable | undefined;
  const name = basename(file);
  const failed = (error: unknown): void =>
    log.warn({ err: error, file }, "pipeline.yaml is not watched: SIGHUP reloads it");
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(dirname(file), { persistent: false }, (_event, changedName) => {
      // Kubernetes swaps the link `..data` beside the file.
      if (changedName !== null && changedName !== name && changedName !== "..data") return;
      pending?.[Symbol.dispose]();
      pending = clock.after(settleMs, changed);
    });
    watcher.on("error", failed);
  } catch (error) {
    failed(error);
  }
  return {
    [Symbol.dispose]() {
      pending?.[Symbol.dispose]();
      watcher?.close();
    },
  };
}
