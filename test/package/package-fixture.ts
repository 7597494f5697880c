/** The published package, built, packed and installed in a user's folder, as `npm install` does it. */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { sharedInRun } from "../run-share.ts";

const root = join(import.meta.dirname, "../..");

export interface InstalledPackage extends Disposable {
  readonly app: string;
  /** Path of the command `sluice` in `app`. */
  readonly main: string;
  /** Replaces the package by a new copy from the tarball, as npm does. */
  install(): void;
}

/** Builds the package into `dist`. Works offline and takes some seconds. */
export function buildPackage(dist: string): void {
  const bin = join(root, "node_modules", ".bin");
  const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` };
  execFileSync(process.execPath, [join(root, ".ci/build.ts"), dist], { env, stdio: "pipe" });
}

/** Builds the package in `folder`/dist and packs it as `folder`/package.tgz. */
export function packPackage(folder: string): void {
  const dist = join(folder, "dist");
  buildPackage(dist);
  const pack = ["pack", dist, "--pack-destination", folder, "--json", "--ignore-scripts"];
  execFileSync("npm", pack, { cwd: folder, stdio: "pipe" });
  const [file = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  renameSync(join(folder, file), join(folder, "package.tgz"));
}

/** Returns paths of the package that all test files of this run share, and must not change: a build takes about 15 s of CPU. */
export async function packedPackage(): Promise<{
  readonly dist: string;
  readonly tarball: string;
}> {
  const folder = await sharedInRun(join(import.meta.dirname, "package-keeper.ts"));
  return { dist: join(folder, "dist"), tarball: join(folder, "package.tgz") };
}

export async function installPackage(): Promise<InstalledPackage> {
  const { tarball } = await packedPackage();
  const folder = mkdtempSync(join(tmpdir(), "sluice-package-"));
  const app = join(folder, "app");
  const modules = join(app, "node_modules");
  const target = join(modules, "sluice-gateway");
  mkdirSync(modules, { recursive: true });
  for (const path of productionPackages()) {
    mkdirSync(dirname(join(app, path)), { recursive: true });
    cpSync(join(root, path), join(app, path), { recursive: true });
  }
  const install = (): void => {
    rmSync(target, { recursive: true, force: true });
    execFileSync("tar", ["-xzf", tarball, "-C", modules]);
    renameSync(join(modules, "package"), target);
  };
  install();
  return {
    app,
    main: join(target, "src/main.js"),
    install,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** Returns the folders of the packages that npm would fetch for a user, relative to the root of the checkout. */
export function productionPackages(): string[] {
  // npm writes the lock file.
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
    packages: Readonly<Record<string, { readonly dev?: boolean; readonly optional?: boolean }>>;
  };
  return Object.entries(packages)
    .filter(([path, { dev, optional }]) => path !== "" && dev !== true && optional !== true)
    .map(([path]) => path);
}
