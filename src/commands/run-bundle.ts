/**
 * Runs `sluice.cjs`, the file with the code of the published package, and keeps what makes its next start faster: above
 * all, what V8 compiled of it until the process had started. Node's own compile cache keeps only what V8 compiles before
 * a file runs, which is a small part of it.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { cachedDataVersionTag } from "node:v8";
import { constants, Script } from "node:vm";
import { crc32 } from "node:zlib";
import { importModule } from "../import-module.ts";
import type { KeptFiles } from "../kept-files.ts";
import { compileCacheFolders } from "./compile-cache.ts";

/** Modules by path without suffix. Each runs when it is called for the first time. */
export type PackageModules = Readonly<Record<string, () => object>>;

/** Bytes before the content: its checksum. V8 checks the version and flags that it compiled for, but not the bytes. */
const headBytes = 4;

/**
 * `folder`: where `sluice.cjs` is. `resolve`: the `import.meta.resolve` of a module there. `servers`: the commands that
 * start a server, each with a file of its own, because a start runs other code.
 */
export function runBundle(
  folder: string,
  resolve: (name: string) => string,
  servers: readonly string[],
): PackageModules {
  const filename = join(folder, "sluice.cjs");
  const bytes = readFileSync(filename);
  const command = servers.find((each) => each === process.argv[2]) ?? "command";
  const folders = compileCacheFolders(folder);
  // Another build has other files.
  const build = crc32(bytes);
  const paths = (name: string): string[] =>
    folders.map((each) => join(each, `sluice-${name}-${build}`));
  const codePaths = paths(`${command}-${cachedDataVersionTag()}`);
  const cachedData = readFirst(codePaths);
  const script = new Script(bytes.toString("latin1"), {
    filename,
    cachedData,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  let isKept = script.cachedDataRejected === false;
  const kept: KeptFiles = {
    keepCompiledCode() {
      if (isKept) return;
      isKept = true;
      writeFirst(codePaths, script.createCachedData());
    },
    readKept: (name) => readFirst(paths(name)),
    // pipeline.yaml may contain secrets.
    writeKept: (name, content) => writeFirst(paths(name), content, 0o600),
  };
  const module = { exports: {} };
  const run = script.runInThisContext() as (...values: readonly unknown[]) => void;
  run(
    module,
    createRequire(filename),
    filename,
    folder,
    pathToFileURL(filename).href,
    resolve,
    kept,
    importModule,
  );
  return (module.exports as { modules: PackageModules }).modules;
}

/** Returns the content of the first file that is neither missing nor damaged. */
function readFirst(paths: readonly string[]): Buffer | undefined {
  for (const path of paths) {
    try {
      const file = readFileSync(path);
      const content = file.subarray(headBytes);
      if (file.readUInt32LE(0) === crc32(content)) return content;
    } catch {
      // The file is missing, or has no checksum.
    }
  }
  return undefined;
}

/** Writes the first file that it can. Another process may use it at the same time. */
function writeFirst(paths: readonly string[], content: Buffer, mode = 0o666): void {
  const head = Buffer.alloc(headBytes);
  head.writeUInt32LE(crc32(content));
  for (const path of paths) {
    const temporary = `${path}.${process.pid}`;
    try {
      writeFileSync(temporary, Buffer.concat([head, content]), { mode });
      renameSync(temporary, path);
      return;
    } catch {
      // The folder is missing or cannot be written.
    }
  }
}
