/**
 * Node's own folder for V8's compiled code is in the shared temporary folder, where another user may have made it
 * first. That user could then replace the code that this process reads back.
 */
import { lstatSync, mkdirSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The variables of Node can choose another folder or none. */
export function useCompileCache(): void {
  const { NODE_COMPILE_CACHE: chosen } = process.env;
  const [folder] = compileCacheFolders();
  if (chosen === undefined && folder !== undefined) enableCompileCache(folder);
}

/**
 * Returns folders in the order of use. `own`: a folder of the package, which only those can change who can change the
 * code.
 */
export function compileCacheFolders(own?: string): readonly string[] {
  const { NODE_COMPILE_CACHE: chosen, NODE_DISABLE_COMPILE_CACHE: disabled } = process.env;
  if (disabled !== undefined) return [];
  if (chosen !== undefined) return [chosen];
  return [own, privateFolder(tmpdir())].filter((folder) => folder !== undefined);
}

/** Makes the folder if it is missing. Returns undefined if another user can change it, or if it cannot be made. */
export function privateFolder(parent: string): string | undefined {
  const uid = process.getuid?.();
  // On Windows each user has a temporary folder.
  const folder = join(parent, `sluice-compile-cache${uid === undefined ? "" : `-${uid}`}`);
  try {
    mkdirSync(folder, { mode: 0o700, recursive: true });
    const found = lstatSync(folder);
    const isPrivate = uid === undefined || (found.uid === uid && (found.mode & 0o077) === 0);
    return found.isDirectory() && isPrivate ? folder : undefined;
  } catch {
    return undefined;
  }
}
