/**
 * The file tree of the image's last stage, run under bubblewrap as the image runs: as user 65532, with a read-only
 * root, and with /tmp and /data as the only writable folders.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { DockerfileParser } from "dockerfile-ast";
import { parse } from "yaml";
import { buildPackage, productionPackages } from "../package/package-fixture.ts";

const root = join(import.meta.dirname, "../..");
const hasBubblewrap = spawnSync("bwrap", ["--version"]).error === undefined;

/** Returns the entry point, the default command and the environment of the image. */
function imageSettings(): {
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

/** Runs a command of the image until it prints its URL, which `use` gets. */
async function runInImage(
  app: string,
  command: readonly string[],
  use: (url: string) => Promise<void>,
): Promise<void> {
  const { entry, env } = imageSettings();
  const libraries = ["/lib", "/lib64", "/usr/lib"].filter((path) => existsSync(path));
  const settings = { ...env, HOST: "127.0.0.1", PORT: "0", ADMIN_PORT: "0" };
  const child = spawn(
    "bwrap",
    [
      ..."--unshare-all --share-net --die-with-parent --uid 65532 --gid 65532".split(" "),
      ...libraries.flatMap((path) => ["--ro-bind", realpathSync(path), path]),
      "--ro-bind",
      realpathSync(process.execPath),
      "/nodejs/bin/node",
      "--ro-bind",
      app,
      "/app",
      ..."--proc /proc --dev /dev --tmpfs /tmp --tmpfs /data".split(" "),
      ..."--remount-ro / --chdir /app --clearenv".split(" "),
      ...Object.entries(settings).flatMap(([name, value]) => ["--setenv", name, value]),
      ...entry,
      ...command,
      "--json",
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const errors: string[] = [];
  child.stderr.on("data", (bytes: Buffer) => errors.push(bytes.toString()));
  const closed = once(child, "close");
  try {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    child.once("exit", () => reject(new Error(`the gateway ended: ${errors.join("")}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      // `sluice start --json` and `sluice dev --json` write a line with this.
      const url = /[{,]"url":"([^"]+)","admin_url"/.exec(line)?.[1];
      if (url !== undefined) resolve(url);
    });
    await use(await promise);
  } finally {
    child.kill("SIGKILL");
    await closed;
  }
}

test(
  "the tree of the image serves requests with a read-only root, also for the demo of compose.yaml",
  { skip: !hasBubblewrap },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sluice-image-"));
    try {
      const app = join(folder, "app");
      buildPackage(app);
      for (const path of productionPackages()) {
        cpSync(join(root, path), join(app, path), { recursive: true });
      }
      const { services } = parse(readFileSync(join(root, "deploy/compose.yaml"), "utf8")) as {
        services: { demo: { command: string[] } };
      };
      for (const command of [imageSettings().command, services.demo.command]) {
        await runInImage(app, command, async (url) => {
          assert.equal((await fetch(`${url}/healthz`)).status, 200);
          assert.equal((await fetch(url)).status, 200);
        });
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
