/**
 * The file tree of the image's last stage, and how bubblewrap runs its programs: as user 65532, with a read-only root,
 * and with /tmp and the data folder as the only writable folders.
 */
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DockerfileParser } from "dockerfile-ast";
import { packedPackage, productionPackages } from "../package/package-fixture.ts";
import { skipWithout } from "../skip-without.ts";

const root = join(import.meta.dirname, "../..");
export const hasBubblewrap = spawnSync("bwrap", ["--version"]).error === undefined;
export const skipWithoutBubblewrap = skipWithout("bubblewrap", hasBubblewrap);

export function imageSettings(): {
  readonly entry: string[];
  readonly command: string[];
  readonly env: Record<string, string>;
} {
  const file = DockerfileParser.parse(readFileSync(join(root, "deploy/Dockerfile"), "utf8"));
  const words = (keyword: string): string[] => {
    const found = file.getInstructions().findLast((each) => each.getKeyword() === keyword);
    return JSON.parse(found?.getArgumentsContent() ?? "[]") as string[];
  };
  const properties = file.getENVs().flatMap((env) => env.getProperties());
  return {
    entry: words("ENTRYPOINT"),
    command: words("CMD"),
    env: Object.fromEntries(properties.map((each) => [each.getName(), each.getValue() ?? ""])),
  };
}

/** Folders of the host by their place in the image, and variables in addition to those of the image. */
export interface ImageOptions {
  readonly folders: Readonly<Record<string, string>>;
  readonly more?: Readonly<Record<string, string>>;
  /** Folder of the host at /data. Null: the image's own, which is read-only. By default, an empty folder in memory. */
  readonly data?: string | null;
}

export function inImage(
  { folders, more = {}, data }: ImageOptions,
  program: readonly string[],
): string[] {
  const libraries = ["/lib", "/lib64", "/usr/lib"].filter((path) => existsSync(path));
  const { env } = imageSettings();
  const settings = { ...env, HOST: "127.0.0.1", ...more, PORT: "0", ADMIN_PORT: "0" };
  const place = data === null ? ["--dir"] : data === undefined ? ["--tmpfs"] : ["--bind", data];
  return [
    ..."--unshare-all --share-net --die-with-parent --uid 65532 --gid 65532".split(" "),
    ...libraries.flatMap((path) => ["--ro-bind", realpathSync(path), path]),
    "--ro-bind",
    realpathSync(process.execPath),
    "/nodejs/bin/node",
    ...Object.entries(folders).flatMap(([path, folder]) => ["--ro-bind", folder, path]),
    ..."--proc /proc --dev /dev --tmpfs /tmp".split(" "),
    ...place,
    "/data",
    ..."--remount-ro / --chdir /app --clearenv".split(" "),
    ...Object.entries(settings).flatMap(([name, value]) => ["--setenv", name, value]),
    ...program,
  ];
}

export interface ImageTree extends Disposable {
  readonly folder: string;
  readonly app: string;
}

export async function openImageTree(): Promise<ImageTree> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-image-"));
  const app = join(folder, "app");
  cpSync((await packedPackage()).dist, app, { recursive: true });
  for (const path of productionPackages()) {
    cpSync(join(root, path), join(app, path), { recursive: true });
  }
  return {
    folder,
    app,
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
