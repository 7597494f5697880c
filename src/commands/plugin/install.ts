import { execFile } from "node:child_process";
import { existsSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { promisify } from "node:util";
import { isObject } from "../../base/is-object.ts";
import {
  isLinked,
  packageIn,
  type InstalledPackage,
} from "../../pipeline/load/installed-package.ts";
import { PackageError } from "./find-plugins.ts";

const run = promisify(execFile);

/**
 * npm runs no code of a package: no install scripts, and nothing of a dependency from git, whose repository can hold
 * settings of npm that name a program. Versions of npm without `allow-…` ignore these options, and fail to run git. No
 * program of a package can take the place of another one, such as `sluice`. The peer of a plugin is this gateway, which
 * must not be installed again.
 */
const npmOptions: readonly string[] = [
  "--ignore-scripts",
  "--allow-git=none",
  "--allow-remote=none",
  "--git=false",
  "--no-bin-links",
  "--legacy-peer-deps",
  "--no-audit",
  "--no-fund",
];

export async function install(given: string, folder: string): Promise<InstalledPackage> {
  const [, file] = /^file:(?:\/\/)?(.*)/.exec(given) ?? [];
  const spec = file === undefined ? given : resolve(file);
  checkPath(spec);
  const isFile = /\.tgz$|^[./]/.test(spec) && existsSync(resolve(spec));
  const wanted = isFile ? resolve(spec) : spec;
  const args = ["install", wanted, "--save", ...npmOptions];
  // Without a package.json, npm would install into a parent folder that has one.
  const own = join(folder, "package.json");
  const isNew = !existsSync(own);
  if (isNew) writeFileSync(own, '{ "private": true, "type": "module" }\n');
  const before = dependenciesOf(own);
  // `npm uninstall` would also remove the link to the program of another package.
  const restore = keepFiles([own, join(folder, "package-lock.json")]);
  try {
    await run("npm", args, { cwd: folder });
  } catch (error) {
    if (isNew) rmSync(own);
    throw new PackageError(
      `nothing was installed: npm install ${spec} failed:\n${npmErrors(error)}`,
    );
  }
  const after = Object.entries(dependenciesOf(own));
  const name = isFile
    ? (after.find(([each, range]) => before[each] !== range) ??
        after.find(([, range]) => basename(range.replace("file:", "")) === basename(spec)))?.[0]
    : /^(@?[^@]+)/.exec(spec)?.[1];
  const installed = packageIn(join(folder, "node_modules", name ?? ""));
  if (name === undefined || installed === undefined) {
    throw new PackageError(`npm installed ${spec}, but the package cannot be found in ${folder}`);
  }
  if (hasProgram(installed, "sluice")) {
    restore();
    rmSync(installed.folder, { recursive: true });
    throw new PackageError(
      `nothing was installed: ${name} has a program called "sluice", which would replace the one of this gateway`,
    );
  }
  if (isLinked(installed)) {
    const target = realpathSync(installed.folder);
    throw new PackageError(
      `${name} was installed but not added: it is a link to ${target}, so it is local code. ${remedyForFolder}`,
    );
  }
  return installed;
}

function keepFiles(paths: readonly string[]): () => void {
  const kept = paths.map((path) => (existsSync(path) ? readFileSync(path) : undefined));
  return () => {
    for (const [at, path] of paths.entries()) {
      const content = kept[at];
      if (content === undefined) rmSync(path, { force: true });
      else writeFileSync(path, content);
    }
  };
}

function hasProgram({ folder, name }: InstalledPackage, wanted: string): boolean {
  const manifest: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const bin = isObject(manifest) ? manifest["bin"] : undefined;
  if (typeof bin === "string") return name.replace(/^@[^/]+\//, "") === wanted;
  return isObject(bin) && Object.keys(bin).some((each) => basename(each) === wanted);
}

const remedyForFolder = "Write its path under `plugins:`, or add the tarball that npm pack writes";

/** Throws PackageError for a path to nothing, and for a folder, which npm would link. */
function checkPath(spec: string): void {
  const isPath = /^[./]/.test(spec);
  if (!isPath && (!spec.endsWith(".tgz") || spec.includes(":"))) return;
  const path = resolve(spec);
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new PackageError(`nothing was installed: ${path} does not exist`);
  if (!found.isDirectory()) return;
  throw new PackageError(
    `nothing was installed: ${path} is a folder, so it is local code. ${remedyForFolder}`,
  );
}

function dependenciesOf(path: string): Readonly<Record<string, string>> {
  const manifest: unknown = JSON.parse(readFileSync(path, "utf8"));
  const dependencies = isObject(manifest) ? manifest["dependencies"] : undefined;
  // npm writes strings.
  return isObject(dependencies) ? (dependencies as Record<string, string>) : {};
}

/** These scripts did not run. npm lists the packages in its own record of the folder. */
export function packagesWithScripts(folder: string): string[] {
  const path = join(folder, "node_modules/.package-lock.json");
  const record: unknown = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
  const packages = isObject(record) && isObject(record["packages"]) ? record["packages"] : {};
  return Object.entries(packages).flatMap(([place, about]) =>
    isObject(about) && about["hasInstallScript"] === true
      ? [place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length)]
      : [],
  );
}

/** The lines of npm that say what went wrong. */
function npmErrors(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
  const output = `${stdout}${stderr}`.trim() || error.message;
  const lines = output
    .split("\n")
    .flatMap((line) => /^npm (?:error|ERR!) (.*\S)/.exec(line)?.[1] ?? [])
    .filter((line) => !/^\s+at |^\s+\w+: |^\}/.test(line));
  return lines.length === 0 ? output : lines.map((line) => `  ${line}`).join("\n");
}
