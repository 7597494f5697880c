/**
 * Runs `sluice.cjs` and keeps what V8 compiled of it until the process had started. Node's own compile cache keeps only
 * what V8 compiles before a file runs, which is a small part of it.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { cachedDataVersionTag } from "node:v8";
import { constants, Script } from "node:vm";
import { crc32 } from "node:zlib";
import { compileCacheFolders } from "./compile-cache.ts";

/** Modules by path without suffix. Each runs when it is called for the first time. */
export type PackageModules = Readonly<Record<string, () => object>>;

/** The checksum of the code. V8 checks the version and flags that it compiled for, but not the bytes. */
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
  const name = `sluice-${command}-${crc32(bytes)}-${cachedDataVersionTag()}`;
  const files = compileCacheFolders(folder).map((each) => join(each, name));
  const cachedData = files.map(readCode).find((each) => each !== undefined);
  const script = new Script(bytes.toString("latin1"), {
    filename,
    cachedData,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  let isKept = script.cachedDataRejected === false;
  const keep = (): void => {
    if (isKept) return;
    isKept = true;
    writeFirst(files, script.createCachedData());
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
    keep,
  );
  return (module.exports as { modules: PackageModules }).modules;
}

/** Returns undefined if the file is missing or damaged. */
function readCode(file: string): Buffer | undefined {
  try {
    const found = readFileSync(file);
    const code = found.subarray(headBytes);
    return found.readUInt32LE(0) === crc32(code) ? code : undefined;
  } catch {
    return undefined;
  }
}

/** Writes the first file that it can. Another process may use it at the same time. */
function writeFirst(files: readonly string[], code: Buffer): void {
  const head = Buffer.alloc(headBytes);
  head.writeUInt32LE(crc32(code));
  for (const file of files) {
    const temporary = `${file}.${process.pid}`;
    try {
      writeFileSync(temporary, Buffer.concat([head, code]));
      renameSync(temporary, file);
      return;
    } catch {
      // The folder is missing or cannot be written.
    }
  }
}
