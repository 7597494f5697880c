import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

const privateMode = 0o700;

/**
 * Creates `folder`, an absolute path, and all missing parent folders, accessible only by their owner. Existing folders
 * keep their mode. Throws the error of the system. Node's own recursive mkdir never returns if the system reports
 * ENOENT although the parent folder exists, as it does below /proc.
 */
export function makeFolder(folder: string): void {
  const error = tryToMake(folder);
  if (error === undefined) return;
  const above = dirname(folder);
  if (error.code !== "ENOENT" || above === folder) throw error;
  makeFolder(above);
  const second = tryToMake(folder);
  if (second !== undefined) throw second;
}

/** Returns undefined if the folder exists afterwards, even if another process created it. */
function tryToMake(folder: string): NodeJS.ErrnoException | undefined {
  try {
    mkdirSync(folder, { mode: privateMode });
    return undefined;
  } catch (error) {
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return undefined;
    // For a string path without a null character, node:fs throws only system errors.
    return error as NodeJS.ErrnoException;
  }
}
