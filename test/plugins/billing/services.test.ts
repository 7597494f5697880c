/** The services `accounts` and `metering` in a whole gateway: reloads, and the dry run of `sluice check`. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { checkFile } from "../../../src/pipeline/load/check-file.ts";
import { dryRun } from "../../../src/pipeline/load/dry-run.ts";
import { startTestGateway } from "../../../plugins/contracts/testing.ts";
import { temporaryFolder } from "../../store/folder.ts";

const pipeline = (plans: string, more = ""): string => `version: 1
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { enterprise: { rps: ${plans} } }
routes:
  - { path: /x, run: [authenticate, { authorize: { require: key } }], to: discovery }
${more}`;

const broken = `export default {
  kind: "surface",
  name: "broken",
  description: "Does not start.",
  start() {
    throw new Error("broken");
  },
};
`;

test("a reload gives the running service its new plans, and a reload that fails does not", async () => {
  const prepare = (folder: string): void => writeFileSync(join(folder, "broken.js"), broken);
  await using t = await startTestGateway({ pipeline: pipeline("5"), prepare });
  const accounts = t.gateway.use("accounts");
  assert.ok(accounts !== undefined);
  const rps = async (): Promise<number> => {
    const caller = await accounts.identify(`Bearer ${t.key}`);
    assert.equal(caller.kind, "key");
    return caller.kind === "key" ? caller.rps : 0;
  };
  assert.equal(await rps(), 5);
  const metering = t.gateway.use("metering");
  // The file is valid, and the failure comes after the services have started.
  const plugins = "plugins: { broken: ./broken.js }\n";
  await t.write(pipeline("6", `  - { path: /y, to: broken }\n${plugins}`));
  const faults = await t.gateway.reloader.reload("test");
  assert.deepEqual(
    faults.map(({ code }) => code),
    ["SLUICE_PLUGIN_START"],
  );
  assert.equal(await rps(), 5);
  await t.write(pipeline("7"));
  assert.deepEqual(await t.gateway.reloader.reload("test"), []);
  assert.equal(await rps(), 7);
  assert.equal(t.gateway.use("accounts"), accounts);
  assert.equal(t.gateway.use("metering"), metering);
});

test("a check opens no database", async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, "pipeline.yaml");
  writeFileSync(file, pipeline("5"));
  const env = { PORT: "0", ADMIN_PORT: "0", DATA_DIR: join(folder, "data") };
  const { faults } = await dryRun(await checkFile(file, env), env);
  assert.deepEqual(faults, []);
  assert.equal(existsSync(join(folder, "data")), false);
});
