/** `sluice backup` and `sluice restore` as processes, beside a running gateway. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { startTestGateway } from "sluice-gateway/testing";
import { startGateway } from "../../src/gateway/gateway.ts";
import { createLog } from "../../src/base/log.ts";
import type { PluginEntries } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";
import { installPackage } from "../package/package-fixture.ts";
import { withFolderSql } from "../store/open-sql.ts";

// The package starts in half the time that the sources take.
const installed = await installPackage();
after(() => installed[Symbol.dispose]());
const { main } = installed;
const pipeline = `version: 1
server: { port: "\${PORT:-0}" }
admin: { port: "\${ADMIN_PORT:-0}" }
store: { data: "\${DATA_DIR:-./data}" }
secret: at-least-sixteen-characters
routes:
  - { path: /, methods: [GET], run: [authenticate, { authorize: { require: key } }], to: front-page }
`;

function sluice(
  folder: string,
  ...given: readonly (string | { readonly output: number | "pipe" })[]
) {
  const args = given.filter((each) => typeof each === "string");
  const output = given.find((each) => typeof each === "object")?.output ?? "ignore";
  const { SLUICE_CONFIG: _, GATEWAY_ENV: __, ...env } = process.env;
  const command = [main, ...args, "--config", join(folder, "pipeline.yaml")];
  const child = spawn(process.execPath, command, {
    env: { ...env, DATA_DIR: join(folder, "data") },
    stdio: ["ignore", output, "pipe"],
  });
  let errors = "";
  child.stderr?.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  const ended = once(child, "close").then(() => ({ code: child.exitCode, errors }));
  return { child, ended };
}

test("a running gateway is backed up, and its keys and what plugins stored are there after a restore", async () => {
  await using started = await startTestGateway({ pipeline });
  const { folder, key } = started;
  const stored = <T>(work: (entries: PluginEntries) => Promise<T>): Promise<T> =>
    withFolderSql(join(folder, "data"), (sql) => work(createPluginEntries(sql)));
  await stored((entries) => entries.set("acme", "a", Buffer.from("b")));
  const file = join(folder, "backup.tgz");
  assert.deepEqual(await sluice(folder, "backup", file).ended, { code: 0, errors: "" });

  const refused = await sluice(folder, "restore", file).ended;
  assert.equal(refused.code, 1);
  assert.match(refused.errors, /SLUICE_STORE_IN_USE[^]*Stop the other gateway/);

  await started.gateway.stop();
  rmSync(join(folder, "data"), { recursive: true });
  assert.deepEqual(await sluice(folder, "restore", file).ended, { code: 0, errors: "" });
  assert.deepEqual(await stored((entries) => entries.list("acme", "")), ["a"]);
  const again = await startGateway({
    configFile: join(folder, "pipeline.yaml"),
    env: { DATA_DIR: join(folder, "data") },
    log: createLog({ level: "silent" }),
  });
  try {
    const authorization = `Bearer ${key}`;
    assert.equal((await fetch(again.url, { headers: { authorization } })).status, 200);
    assert.equal((await fetch(again.url)).status, 401);
  } finally {
    await again.stop();
  }
});

test("`backup -` writes the archive to standard output and nothing else, and a restore accepts it", async () => {
  await using started = await startTestGateway({ pipeline });
  const { folder } = started;
  const archive = join(folder, "piped.tar");
  const output = openSync(archive, "w");
  const piped = await sluice(folder, "backup", "-", { output }).ended;
  assert.equal(piped.code, 0);
  assert.match(piped.errors, /^the archive contains charges\.db, state\.db as of /);
  assert.deepEqual(
    readdirSync(join(folder, "data")).filter((name) => name.startsWith(".")),
    [],
  );
  await started.gateway.stop();
  assert.deepEqual(await sluice(folder, "restore", archive).ended, { code: 0, errors: "" });
});

test("`backup -` to a reader that goes away fails and leaves nothing", async () => {
  await using started = await startTestGateway({ pipeline });
  const { folder } = started;
  const db = new DatabaseSync(join(folder, "data", "state.db"), { timeout: 5_000 });
  db.exec("CREATE TABLE filler (bytes BLOB); INSERT INTO filler VALUES (randomblob(4000000))");
  db.close();
  const { child, ended } = sluice(folder, "backup", "-", { output: "pipe" });
  child.stdout?.once("data", () => child.stdout?.destroy());
  const { code, errors } = await ended;
  assert.equal(code, 1);
  assert.match(errors, /SLUICE_BACKUP_UNWRITABLE/);
  assert.deepEqual(
    readdirSync(join(folder, "data")).filter((name) => name.startsWith(".")),
    [],
  );
});

const isLinux = process.platform === "linux";

test("`backup -` to a full disk fails and leaves nothing", { skip: !isLinux }, async () => {
  await using started = await startTestGateway({ pipeline });
  const { folder } = started;
  const output = openSync("/dev/full", "w");
  const { code, errors } = await sluice(folder, "backup", "-", { output }).ended;
  closeSync(output);
  assert.equal(code, 1);
  assert.match(errors, /SLUICE_STORE_FULL/);
  assert.deepEqual(
    readdirSync(join(folder, "data")).filter((name) => name.startsWith(".")),
    [],
  );
});

test("a backup that is killed leaves no file, and the next one succeeds", async () => {
  await using started = await startTestGateway({ pipeline });
  const { folder } = started;
  // Large enough that the copy takes a while.
  const db = new DatabaseSync(join(folder, "data", "state.db"), { timeout: 5_000 });
  db.exec("CREATE TABLE filler (bytes BLOB)");
  for (let n = 0; n < 60; n++) db.exec("INSERT INTO filler VALUES (randomblob(1000000))");
  db.close();
  const file = join(folder, "backup.tar");
  const { child, ended } = sluice(folder, "backup", file);
  const isCopying = (): boolean =>
    readdirSync(folder).some(
      (name) => name.startsWith(".backup.tar-") && existsSync(join(folder, name, "state.db")),
    );
  while (!isCopying()) {
    assert.equal(child.exitCode, null, "the backup ended before it could be killed");
    await new Promise(setImmediate);
  }
  child.kill("SIGKILL");
  assert.equal((await ended).code, null);
  assert.equal(existsSync(file), false);
  const { url, key } = started;
  assert.equal((await fetch(url, { headers: { authorization: `Bearer ${key}` } })).status, 200);
  assert.deepEqual(await sluice(folder, "backup", file).ended, { code: 0, errors: "" });
  assert.ok(existsSync(file));
});
