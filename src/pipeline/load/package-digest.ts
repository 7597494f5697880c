/** The digest of an installed package, by which pipeline.lock recognizes it. */
import { hash } from "node:crypto";
import { readFileSync, readdirSync, realpathSync, type Dirent } from "node:fs";
import { join, relative, sep } from "node:path";

/**
 * Returns the digest of all files in the folder of a package, including those in folders named node_modules: such a
 * folder contains what the author has bundled with the package, or a version of a dependency that only this package
 * uses. A link is not followed. Its target is part of the digest, and is inside the folder, so its content is, too.
 *
 * Throws an Error if something cannot be part of the digest: a link that leads out of the folder or to nothing, a pipe
 * or socket, or a file that cannot be read.
 */
export function packageDigest(folder: string): string {
  const root = realpathSync(folder);
  const lines = entriesIn(root)
    .map((entry): [string, string] => {
      const path = join(entry.parentPath, entry.name);
      return [pathIn(root, path), contentOf(root, path, entry)];
    })
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, content]) => `${content} ${path}\n`);
  return `sha512-${hash("sha512", lines.join(""), "base64")}`;
}

/** Returns all entries that are not folders. The option `recursive` of Node would follow links, which can form circles. */
function entriesIn(folder: string): Dirent[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? entriesIn(join(folder, entry.name)) : [entry],
  );
}

function contentOf(root: string, path: string, entry: Dirent): string {
  if (entry.isFile()) return hash("sha512", readFileSync(path));
  const shown = pathIn(root, path);
  if (!entry.isSymbolicLink()) throw new Error(`${shown} is not a file, a folder or a link`);
  let target: string;
  try {
    target = realpathSync(path);
  } catch {
    throw new Error(`${shown} is a link to nothing`);
  }
  if (target !== root && !target.startsWith(root + sep)) {
    throw new Error(`${shown} is a link that leads out of the package`);
  }
  return `link:${pathIn(root, target)}`;
}

function pathIn(root: string, path: string): string {
  return relative(root, path).split(sep).join("/");
}
