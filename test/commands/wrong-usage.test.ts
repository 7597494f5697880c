/** Arguments that commands refuse, and places that they cannot write to. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { backup } from "../../src/commands/backup.ts";
import { check } from "../../src/commands/check.ts";
import { UsageError } from "../../src/commands/command.ts";
import { dev } from "../../src/commands/dev.ts";
import { explain } from "../../src/commands/explain.ts";
import { plugin } from "../../src/commands/plugin/plugin.ts";
import { start } from "../../src/commands/start.ts";
import { commandLine } from "./command-line.ts";

test("start and dev do not ignore the name of a file, which --config would need", async (t) => {
  const { run } = commandLine(t);
  for (const command of [start, dev]) await assert.rejects(run(command, "mine.yaml"), UsageError);
});

test("explain refuses an address without http:// before its host", async (t) => {
  const { run } = commandLine(t);
  for (const address of ["localhost:9090", "127.0.0.1:9090", "nonsense"]) {
    const wanted = /--admin: expected a URL such as http:/;
    await assert.rejects(run(explain, "some-id", "--admin", address), wanted);
  }
});

test("check names the file of --write-schema that cannot be written", async (t) => {
  const { run, folder, configFile } = commandLine(t);
  writeFileSync(configFile, "version: 1\nroutes: [{ path: /, to: discovery }]\n");
  const refused = /--write-schema: cannot write ".*" \(EISDIR\)/;
  await assert.rejects(run(check, "--write-schema", folder), refused);
});

test("backup warns that the data folder is not used with a database", async (t) => {
  const { run, folder } = commandLine(t, "dev", { DATABASE_URL: "postgres://127.0.0.1:9/sluice" });
  const { code, err } = await run(backup, join(folder, "backup.tgz"));
  assert.equal(code, 1);
  assert.match(err.join("\n"), /^warning: store\.postgres is set.*\n.*SLUICE_BACKUP_EMPTY/);
});

test("plugin new names a folder that cannot be made, and ends", async (t) => {
  const { run, folder } = commandLine(t);
  const file = join(folder, "file");
  writeFileSync(file, "");
  for (const dir of [file, join(file, "in"), "/proc/nowhere"]) {
    const { code, err } = await run(plugin, "new", "acme-tenant", "--kind", "step", "--dir", dir);
    assert.equal(code, 1);
    assert.match(err.join("\n"), /^plugin new: cannot write to \//);
  }
});
