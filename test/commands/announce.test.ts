/** The output of `sluice start`: text on a terminal, log lines otherwise. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { announce } from "../../src/commands/start.ts";
import type { CommandContext } from "../../src/commands/command.ts";
import { createLog } from "../../src/base/log.ts";
import { startGateway } from "../../src/gateway/gateway.ts";
import { version } from "../../src/base/version.ts";
import { withFolderAccounts } from "../plugins/billing/accounts/open-accounts.ts";
import { temporaryFolder } from "../store/folder.ts";

const pipeline = `version: 1
server: { port: 0 }
admin: { port: 0 }
upstreams: { web: { urls: "http://127.0.0.1:1" } }
unmatched: []
routes:
  - { path: /web, run: [], to: { forward: { upstream: web } } }
`;

interface Announced {
  readonly out: string;
  readonly err: string;
  readonly log: readonly string[];
}

async function announced(
  t: TestContext,
  context: Partial<CommandContext>,
  hasWorkspace: boolean,
): Promise<Announced> {
  const folder = temporaryFolder(t);
  const configFile = join(folder, "pipeline.yaml");
  writeFileSync(configFile, pipeline);
  if (hasWorkspace) {
    const by = { actor: "test", at: Date.now() };
    await withFolderAccounts(join(folder, "data"), (store) =>
      store.createWorkspace({ name: "acme", plan: "free" }, by),
    );
  }
  const lines: string[] = [];
  const gatewayLog = createLog({
    level: "info",
    destination: { write: (line) => void lines.push(line) },
  });
  const options = { configFile, env: {}, log: gatewayLog, watch: false, drainDelaySeconds: 0 };
  const gateway = await startGateway(options);
  let out = "";
  let err = "";
  await announce(
    {
      env: {},
      print: (line) => void (out += `${line}\n`),
      printToStderr: (line) => void (err += `${line}\n`),
      configFile,
      signal: new AbortController().signal,
      json: false,
      ...context,
    },
    gateway,
  );
  // The stop writes lines of its own.
  const log = [...lines];
  await gateway.stop();
  return { out, err, log };
}

test("a terminal gets the version, the addresses and the dashboard on standard error", async (t) => {
  const { out, err, log } = await announced(t, { isTerminal: true }, true);
  assert.equal(out, "");
  assert.ok(err.includes(`Sluice ${version} is listening.`));
  assert.match(err, /clients +http:\/\/127\.0\.0\.1:\d+\n/);
  assert.match(err, /dashboard +http:\/\/127\.0\.0\.1:\d+\/dashboard/);
  assert.doesNotMatch(err, /workspaces create/);
  assert.equal(log.length, 1);
});

test("an empty store brings the commands that make a workspace and a key", async (t) => {
  const commonArguments = ["--config", "my pipeline.yaml", "--env-file", ".env"];
  const { err, log } = await announced(t, { isTerminal: true, commonArguments }, false);
  const more = "--config 'my pipeline.yaml' --env-file .env";
  assert.ok(err.includes(`sluice workspaces create --name acme --plan developer ${more}\n`), err);
  assert.ok(err.includes(`sluice keys create --workspace ws_… ${more}\n`), err);
  assert.match(err, /--capability platform:admin/);
  assert.match(log[1] ?? "", /there is no workspace yet/);
});

test("without a terminal, and with --json, standard error stays empty", async (t) => {
  assert.equal((await announced(t, {}, false)).err, "");
  const { out, err } = await announced(t, { isTerminal: true, json: true }, false);
  assert.equal(err, "");
  assert.deepEqual(Object.keys(JSON.parse(out) as object), ["url", "admin_url"]);
});
