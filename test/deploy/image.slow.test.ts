/** The image's last stage, the health checks of the Compose files and an image with a plugin, run under bubblewrap. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { DockerfileParser } from "dockerfile-ast";
import { parse, parseAllDocuments } from "yaml";
import {
  hasBubblewrap,
  imageSettings,
  inImage,
  openImageTree,
  skipWithoutBubblewrap,
  type ImageOptions,
  type ImageTree,
} from "./image-tree.ts";

const root = join(import.meta.dirname, "../..");

/** Runs a command of the image until it prints its URL, which `use` gets. */
async function runInImage(
  parts: ImageOptions,
  command: readonly string[],
  use: (url: string) => Promise<void>,
): Promise<void> {
  const program = [...imageSettings().entry, ...command, "--json"];
  const child = spawn("bwrap", inImage(parts, program), { stdio: ["ignore", "pipe", "pipe"] });
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

let folder: string;
let app: string;
let tree: ImageTree | undefined;
before(async () => {
  if (!hasBubblewrap) return;
  tree = await openImageTree();
  ({ folder, app } = tree);
});
after(() => tree?.[Symbol.dispose]());

test(
  "the tree of the image serves requests with a read-only root, also for the demo of compose.yaml",
  { skip: skipWithoutBubblewrap },
  async () => {
    const { services } = parse(readFileSync(join(root, "deploy/compose.yaml"), "utf8")) as {
      services: { demo: { command: string[] } };
    };
    for (const command of [imageSettings().command, services.demo.command]) {
      await runInImage({ folders: { "/app": app } }, command, async (url) => {
        assert.equal((await fetch(`${url}/healthz`)).status, 200);
        assert.equal((await fetch(url)).status, 200);
      });
    }
  },
);

/** Returns the health checks of the Compose files, which are equal, and the startup probe of the sidecar, as programs. */
function healthChecks(): { readonly ready: string[]; readonly started: string[] } {
  const compose = ["compose.yaml", "compose.replicas.yaml"].map((name) => {
    const file = parse(readFileSync(join(root, "deploy", name), "utf8"), { merge: true }) as {
      services: { gateway: { healthcheck: { test: string[] } } };
    };
    const [kind, ...program] = file.services.gateway.healthcheck.test;
    assert.equal(kind, "CMD");
    return program;
  });
  const text = readFileSync(join(root, "deploy/sidecar.yaml"), "utf8");
  const [, pod] = parseAllDocuments(text).map((document): unknown => document.toJS()) as [
    unknown,
    { spec: { initContainers: [{ startupProbe: { exec: { command: string[] } } }] } },
  ];
  const [ready = [], other] = compose;
  assert.deepEqual(other, ready);
  return { ready, started: pod.spec.initContainers[0].startupProbe.exec.command };
}

test(
  "the health checks of the Compose files and the sidecar run in the image and report its state",
  { skip: skipWithoutBubblewrap },
  async () => {
    const { ready, started } = healthChecks();
    const parts = { folders: { "/app": app } };
    const status = async (program: readonly string[], url: string): Promise<unknown> => {
      const words = program.map((word) => word.replace("http://127.0.0.1:8080", url));
      assert.ok(words.some((word) => word.includes(url)));
      const check = spawn("bwrap", inImage(parts, words), { stdio: "ignore" });
      const [code] = (await once(check, "close")) as unknown[];
      return code;
    };
    let ended = "";
    await runInImage(parts, ["dev"], async (url) => {
      assert.equal((await fetch(`${url}/readyz`)).status, 200);
      assert.equal(await status(ready, url), 0);
      ended = url;
    });
    assert.equal(await status(ready, ended), 1);
    assert.equal(await status(started, ended), 1);
    // Without a node, the shipped pipeline.yaml is not ready, but the application next to a sidecar starts.
    const noNode = { ...parts, more: { LEDGER_RPC_URL: "http://127.0.0.1:1" } };
    await runInImage(noNode, imageSettings().command, async (url) => {
      assert.equal((await fetch(`${url}/readyz`)).status, 503);
      assert.equal(await status(ready, url), 1);
      assert.equal(await status(started, url), 0);
    });
  },
);

const plugin = `
import { defineStep, refuse } from "sluice-gateway/plugin";
export default defineStep({
  name: "acme-tenant",
  contract: "^1",
  description: "Requires a tenant.",
  start: () => ({
    requestHeaders: ({ request }) =>
      request.headers["x-tenant"] === undefined ? refuse("GATEWAY_INVALID_PARAMS") : undefined,
  }),
});
`;
const pipeline = `version: 1
server: { host: "\${HOST}", port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
lists:
  edge: [request-id]
routes:
  - { path: /, methods: [GET], run: [{ use: edge }], to: front-page }
`;

function packPlugin(target: string): string {
  const source = join(folder, "acme-tenant");
  mkdirSync(source);
  const [name, version] = ["acme-tenant", "1.0.0"];
  const manifest = { name, version, type: "module", exports: "./index.js" };
  writeFileSync(join(source, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(source, "index.js"), plugin);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", target], { cwd: source });
  return join(target, `${name}-${version}.tgz`);
}

/** Copies what plugins.Dockerfile copies from the folder of the build, and runs its `npm ci` on that. */
function copyAndInstall(text: string, from: string, to: string): void {
  const copies = DockerfileParser.parse(text).getCOPYs();
  // The others copy from another stage.
  const copy = copies.find((each) => each.getFlags().length === 0);
  const words = copy?.getArguments().map((word) => word.getValue()) ?? [];
  assert.equal(words.pop(), "./");
  mkdirSync(to);
  for (const name of globSync(words, { cwd: from })) cpSync(join(from, name), join(to, name));
  const args = /npm (ci .*?) &&/.exec(text)?.[1] ?? assert.fail("no npm ci");
  // The build has no cache of npm, which could contain the tarball.
  const cache = { npm_config_cache: join(folder, "npm-cache"), npm_config_offline: "true" };
  const env = { ...process.env, ...cache, npm_config_update_notifier: "false" };
  execFileSync("npm", args.split(" "), { cwd: to, env, stdio: "pipe" });
}

test(
  "an image with a plugin that plugins.Dockerfile adds serves requests through the plugin",
  { skip: skipWithoutBubblewrap },
  async () => {
    const machine = join(folder, "machine");
    mkdirSync(machine);
    writeFileSync(join(machine, "pipeline.yaml"), pipeline);
    const tarball = packPlugin(machine);
    const sluice = [join(app, "src/main.js"), "plugin", "add", tarball, "--list", "edge"];
    execFileSync(process.execPath, sluice, { cwd: machine, stdio: "ignore" });
    const text = readFileSync(join(root, "deploy/plugins.Dockerfile"), "utf8");
    const own = join(folder, "pipeline");
    copyAndInstall(text, machine, own);
    assert.match(text, /ln -sfn \/app node_modules\/sluice-gateway/);
    const settings = DockerfileParser.parse(text)
      .getENVs()
      .flatMap((env) => env.getProperties());
    const more = Object.fromEntries(
      settings.map((each) => [each.getName(), each.getValue() ?? ""]),
    );
    // The link leads to the gateway of the image.
    symlinkSync("/app", join(own, "node_modules/sluice-gateway"));
    const parts = { folders: { "/app": app, "/pipeline": own }, more };
    await runInImage(parts, imageSettings().command, async (url) => {
      assert.equal((await fetch(url)).status, 400);
      assert.equal((await fetch(url, { headers: { "x-tenant": "blue" } })).status, 200);
    });
  },
);
