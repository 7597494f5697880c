/** Makes the data folder and the folders above it. */
import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";

const privateMode = 0o700;

/**
 * Makes `folder`, which is absolute, with every folder above it that is missing, readable by its owner only. A folder
 * that exists keeps its mode. Throws the system's error. Node's own recursive mkdir never returns where the system
 * reports ENOENT although the folder above exists, as it does below /proc.
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

/** Returns undefined if the folder exists afterwards, whoever made it. */
function tryToMake(folder: string): NodeJS.ErrnoException | undefined {
  try {
    mkdirSync(folder, { mode: privateMode });
    return undefined;
  } catch (error) {
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return undefined;
    // node:fs throws nothing but system errors for a path that is a string without a null character.
    return error as NodeJS.ErrnoException;
  }
}
