/** Runs the commands that docs/getting-started.md shows, in their order, in a shell. */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startDemoModel } from "../../plugins/inference/demo/model.ts";
import { startDemoNode } from "../../plugins/ledger/demo/node.ts";
import { installPackage } from "../package/package-fixture.ts";
import { root } from "./tables.ts";

const run = promisify(execFile);

/** The commands of all blocks without a language, each in one line. */
function commandsOf(page: string): string[] {
  const blocks = [...page.matchAll(/^( *)```\n([^]*?)^\1```$/gm)].map(([, , text = ""]) => text);
  return blocks.flatMap((text) =>
    text
      .replaceAll(/\\\n\s*/g, "")
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => line !== ""),
  );
}

interface Server {
  readonly url: string;
  readonly adminUrl: string;
  readonly key: string;
  stop(): Promise<void>;
}

/** Starts a command that serves until it is stopped, in a process group of its own. */
async function serve(command: string, cwd: string, env: NodeJS.ProcessEnv): Promise<Server> {
  const child: ChildProcess = spawn("sh", ["-c", command], {
    cwd,
    env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const closed = once(child, "close");
  const found = Promise.withResolvers<string>();
  const read = (bytes: Buffer): void => {
    output += bytes.toString();
    // `sluice dev` ends its text with this line, and `sluice start` logs a line of JSON.
    if (/Press Ctrl-C to stop|"msg":"the gateway is listening"/.test(output)) found.resolve(output);
  };
  child.stdout?.on("data", read);
  child.stderr?.on("data", read);
  child.once("exit", () => found.reject(new Error(`${command} ended: ${output}`)));
  const text = await found.promise;
  const match = (pattern: RegExp): string => pattern.exec(text)?.[1] ?? "";
  return {
    url: match(/node RPC +(http:\/\/[\d.:]+)/) || match(/"url":"([^"]+)"/),
    adminUrl: match(/metrics +(http:\/\/[\d.:]+)/) || match(/"adminUrl":"([^"]+)"/),
    key: match(/(gateway_dev_\w+)/),
    async stop() {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGTERM");
      await closed;
    },
  };
}

test("the commands of the page work in their order", async (t) => {
  const installed = await installPackage();
  t.after(() => installed[Symbol.dispose]());
  const { app: folder, main } = installed;
  const bin = join(folder, "node_modules/.bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "sluice"), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
  chmodSync(join(bin, "sluice"), 0o755);
  const node = await startDemoNode();
  t.after(() => node.close());
  const model = await startDemoModel();
  t.after(() => model.close());
  const { SLUICE_CONFIG: _, DATA_DIR: __, GATEWAY_ENV: ___, ...outer } = process.env;
  const env = { ...outer, PORT: "0", ADMIN_PORT: "0", npm_config_offline: "true" };

  let server: Server | undefined;
  t.after(() => server?.stop());
  let workspace = "";
  const done: string[] = [];
  const page = readFileSync(join(root, "docs/getting-started.md"), "utf8");
  for (const shown of commandsOf(page)) {
    // Both are installed already; .ci/try-package installs the packed package with npm.
    if (/^npm (ci|run build|install)\b/.test(shown)) continue;
    const command = shown
      .replaceAll("http://127.0.0.1:8080", server?.url ?? "")
      .replaceAll("http://127.0.0.1:9090", server?.adminUrl ?? "")
      .replaceAll("http://127.0.0.1:9944", node.url)
      .replaceAll("http://127.0.0.1:8000", model.url)
      .replaceAll("gateway_dev_…", server?.key ?? "")
      .replaceAll("ws_…", workspace)
      .replace(/^curl/, "curl --fail");
    if (/(npm start|sluice start)$/.test(command)) {
      await server?.stop();
      const inCheckout = command.endsWith("npm start");
      server = await serve(
        command,
        inCheckout ? root : folder,
        inCheckout ? { ...env, DATA_DIR: join(folder, "tried") } : env,
      );
      assert.match(server.url, /^http:/);
    } else {
      const { stdout } = await run("sh", ["-c", command], { cwd: folder, env });
      if (shown.includes("/rpc")) assert.match(stdout, /"result"/, shown);
      workspace = /ws_\w+/.exec(stdout)?.[0] ?? workspace;
    }
    done.push(shown.split(" ").slice(0, 3).join(" "));
  }
  assert.ok(done.length >= 10, done.join("; "));
});
