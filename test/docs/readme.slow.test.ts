/** Runs what the README shows under "Use your own enclave", in its order, with the installed package. */
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { demoModelId, startDemoModel } from "../../plugins/inference/demo/model.ts";
import { installPackage } from "../package/package-fixture.ts";
import { root } from "./tables.ts";

const run = promisify(execFile);
const installed = await installPackage();
after(() => installed[Symbol.dispose]());
const { app, main } = installed;

const readme = readFileSync(join(root, "README.md"), "utf8");
const [section = ""] = readme.split("\n## Use your own enclave\n")[1]?.split("\n## ") ?? [];
const [workerCommand, startCommand, ...others] = [...section.matchAll(/^ {4}(.+)$/gm)].map(
  ([, command = ""]) => command,
);
const block = (language: string): string =>
  new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "m").exec(section)?.[1] ?? "";

/** Starts a command that serves until the test ends. Returns what it has printed when it prints `ready`. */
async function serve(
  t: TestContext,
  command: string,
  { cwd, env = {}, ready }: { cwd: string; env?: object; ready: RegExp },
): Promise<string> {
  const child = spawn("sh", ["-c", command], {
    cwd,
    env: { ...process.env, ...env },
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  t.after(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
    await closed;
  });
  let printed = "";
  for await (const piece of child.stdout) {
    printed += String(piece);
    if (ready.test(printed)) return printed;
  }
  throw new Error(`${command} ended: ${printed}`);
}

test("a chat through a simulated enclave is answered and charged at the price that was set", async (t) => {
  assert.ok(workerCommand !== undefined && startCommand !== undefined);
  assert.deepEqual(others, []);
  const model = await startDemoModel();
  t.after(() => model.close());
  const worker = workerCommand
    .replace("npx sluice", `'${process.execPath}' '${main}'`)
    .replace("http://127.0.0.1:8000", model.url)
    .replace("Qwen/Qwen3-0.6B", demoModelId);
  const printed = await serve(t, `${worker} --listen 127.0.0.1:0`, {
    cwd: app,
    ready: /Root: .*\n/,
  });
  const simulatedRoot = /Root: (\S+)/.exec(printed)?.[1] ?? "";

  const network = block("yaml").replace(/ws:\S+/, /ws:[^\s,]+/.exec(printed)?.[0] ?? "");
  const shipped = readFileSync(join(root, "pipeline.yaml"), "utf8");
  const config = join(app, "pipeline.yaml");
  const pipeline = shipped.replace(
    /^ {2}confidential-alpha:.*\n(?: {4}.*\n)+/m,
    network.replaceAll(/^/gm, "  "),
  );
  writeFileSync(config, pipeline);

  const env = { SLUICE_CONFIG: config, DATA_DIR: join(app, "data"), PORT: "0", ADMIN_PORT: "0" };
  const started = await serve(t, startCommand, { cwd: root, env, ready: /Press Ctrl-C to stop/ });
  const url = /node RPC +(http:\/\/[\d.:]+)/.exec(started)?.[1] ?? "";
  const client = join(app, "chat.ts");
  const snippet = block("ts")
    .replace("http://127.0.0.1:8080", url)
    .replace("gateway_dev_…", /gateway_dev_\w+/.exec(started)?.[0] ?? "")
    .replace("Qwen/Qwen3-0.6B", demoModelId)
    .replace("MIIBZTCC…", simulatedRoot);
  writeFileSync(client, snippet);
  writeFileSync(join(app, "package.json"), `{ "type": "module" }`);
  const { stdout } = await run(process.execPath, [client]);
  assert.equal(stdout, "Hello");

  const usage = await run(process.execPath, [main, "usage", "export"], {
    cwd: app,
    env: { ...process.env, ...env },
  });
  // One charge. 12 nano tokens at 0.25 USD are 3 milli-CU per token.
  const charge = JSON.parse(usage.stdout) as Readonly<Record<string, number>>;
  const { used_cu_milli: used, input_tokens: input = 0, output_tokens: output = 0 } = charge;
  assert.ok(input > 0 && output > 0);
  assert.equal(used, 3 * (input + output));
});
