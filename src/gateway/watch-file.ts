import { watch, type FSWatcher } from "node:fs";
import { basename, dirname } from "node:path";
import type { Clock, Log } from "../plugin.ts";

/** Time without a change until `changed` is called, because editors write a file in several steps. */
const settleMs = 100;

interface WatchDeps {
  readonly clock: Clock;
  readonly log: Log;
}

export function watchFile(file: string, deps: WatchDeps, changed: () => void): Disposable {
  // Kubernetes replaces the link `..data` in the folder of the file.
  const names = new Set([basename(file), "..data"]);
  const missing = "cannot watch pipeline.yaml: send SIGHUP to reload it";
  return watchFolder({ folder: dirname(file), names, missing }, deps, changed);
}

export function watchCode(
  files: readonly string[],
  deps: WatchDeps,
  changed: () => void,
): Disposable {
  const stack = new DisposableStack();
  const missing = "cannot watch the code of plugins: send SIGHUP to reload it";
  for (const [folder, inside] of Map.groupBy(files, (file) => dirname(file))) {
    const names = new Set(inside.map((file) => basename(file)));
    stack.use(watchFolder({ folder, names, missing }, deps, changed));
  }
  return stack;
}

/**
 * Watches the folder instead of the file, because editors and config maps replace a file instead of writing to it. If
 * the system has no watches left (ENOSPC, EMFILE), the gateway logs `missing` and runs without the watch.
 */
function watchFolder(
  wanted: {
    readonly folder: string;
    readonly names: ReadonlySet<string>;
    readonly missing: string;
  },
  { clock, log }: WatchDeps,
  changed: () => void,
): Disposable {
  const { folder, names, missing } = wanted;
  let pending: Disposable | undefined;
  const failed = (error: unknown): void => log.warn({ err: error, folder }, missing);
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      if (name !== null && !names.has(name)) return;
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
