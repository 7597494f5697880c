/** The file, the gateways and the stores of the view Pipeline. */
import assert from "node:assert/strict";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { launchChromium } from "../../../browser.ts";
import { openWatchedPage, saveScreenshot } from "../../../watched-page.ts";
import { createDatabase } from "../../../store/servers.ts";
import { until, upgrade } from "../../billing/shipping/fixture.ts";
import { ask, call, enter, pipeline, signIn, startWatched } from "./gateway.ts";

const secret = "a secret of these gateways";

test("the running file is compared with the file on disk, without the values of variables", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const file = join(gateway.folder, "pipeline.yaml");
  const read = async () => (await ask(gateway, "pipeline-file", { cookie })).body;
  const same = await read();
  assert.deepEqual([same.state, same.path, same.generation], ["same", file, 1]);
  const lines = (answer: { lines: { text: string }[] }) => answer.lines.map(({ text }) => text);
  assert.deepEqual(lines(same).join("\n"), pipeline.trimEnd());
  assert.ok(
    lines(same).includes(
      'store: { data: "${DATA_DIR}", postgres: "${DATABASE_URL:-}", replica: "${REPLICA_NAME:-}" }',
    ),
  );

  await gateway.write(pipeline.replace("meter: { price: 500 }", "meterr: { price: 500 }"));
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  const refused = await read();
  assert.deepEqual([refused.state, refused.generation], ["different", 1]);
  const changed = refused.lines.filter(
    (line: { running?: number; disk?: number }) =>
      line.running === undefined || line.disk === undefined,
  );
  assert.deepEqual(
    changed.map(({ running, disk }: { running?: number; disk?: number }) => [running, disk]),
    [
      [14, undefined],
      [undefined, 14],
    ],
  );
  assert.match(changed[1].text, /meterr/);

  await rm(file);
  const missing = await read();
  assert.deepEqual([missing.state, missing.problem], ["unreadable", "it does not exist"]);
  assert.deepEqual(lines(missing), lines(same));
  await writeFile(file, `#${"x".repeat(1_048_576)}`);
  assert.equal((await read()).problem, "it has more than 1048576 bytes");
});

test("the stores of a gateway alone are the databases in its data folder", async () => {
  await using gateway = await startWatched();
  const cookie = await signIn(gateway, gateway.key);
  const damaged = "not a database, only a text".repeat(100);
  await writeFile(join(gateway.folder, "data", "damaged.db"), damaged);
  await writeFile(join(gateway.folder, "data", "other.txt"), "");
  const { body } = await ask(gateway, "stores", { cookie });
  const at = body.stores.findIndex(({ name }: { name: string }) => name === "damaged.db");
  const [{ up: isUp, problem }] = body.stores.splice(at, 1);
  assert.deepEqual([isUp, problem], [false, "ERR_SQLITE_ERROR"]);
  const names = body.stores.map(({ name }: { name: string }) => name);
  for (const name of ["charges.db", "state.db"]) assert.ok(names.includes(name), name);
  for (const { kind, up, schema_version: version, bytes } of body.stores) {
    assert.deepEqual([kind, up, version > 0, bytes > 0], ["SQLite", true, true, true]);
  }
});

function start(url: string, name: string, text = pipeline): Promise<TestGateway> {
  return startTestGateway({
    pipeline: text,
    env: { DATABASE_URL: url, GATEWAY_SECRET: secret, REPLICA_NAME: name },
    account: { capabilities: ["platform:admin", "ledger:read"] },
  });
}

test("gateways on one database show their leases, and whether their files are equal", async (t) => {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  await using one = await start(url, "one");
  await using _two = await start(url, "two");
  await using _three = await start(url, "three", `${pipeline}# a comment\n`);
  const cookie = await signIn(one, one.key);
  assert.equal(await call(one, one.key), 200);
  const gateways = async () => (await ask(one, "health", { cookie })).body.gateways;
  await until(async () => (await gateways())[0].leased_scopes > 0);
  const [own, three, two] = await gateways();
  assert.ok(own.slack_cu_milli > 0);
  assert.deepEqual([two.leased_scopes, two.slack_cu_milli, two.reserved_cu_milli], [0, 0, 0]);
  assert.deepEqual([own.same_file, three.same_file, two.same_file], [true, false, true]);
  assert.deepEqual([own.reload_refused, two.reload_refused], [false, false]);

  const { body } = await ask(one, "stores", { cookie });
  const postgres = body.stores.find(({ kind }: { kind: string }) => kind === "PostgreSQL");
  assert.deepEqual([postgres.up, postgres.schema_version > 0], [true, true]);
});

test("operators see the difference with the fault at its line, and the stores", async (t) => {
  const browser = await launchChromium(t);
  if (browser === undefined) return;
  await using gateway = await startWatched();
  const { page } = await openWatchedPage(browser, {
    origin: gateway.adminUrl,
    viewport: { width: 1280, height: 800 },
  });
  await page.goto(`${gateway.adminUrl}/dashboard#/pipeline?show=file`);
  await enter(page, gateway.key);
  await page.getByText("same on disk").waitFor();
  await page.getByRole("cell", { name: "version: 1" }).waitFor();
  await gateway.write(pipeline.replace("meter: { price: 500 }", "meterr: { price: 500 }"));
  assert.equal((await gateway.gateway.reloader.reload("test")).length, 1);
  await page.getByText("differs on disk").waitFor();
  await page.getByText("has 1 new line and lacks 1 line").waitFor();
  const compared = page.getByRole("table", { name: "pipeline.yaml as it runs and on disk" });
  await compared.locator("td.removed.line", { hasText: "meter: { price: 500 }" }).waitFor();
  await compared.locator("td.added.line", { hasText: "meterr: { price: 500 }" }).waitFor();
  await compared.getByRole("row", { name: /SLUICE_PLUGIN_UNKNOWN/ }).waitFor();
  await compared.getByText("10 equal lines").waitFor();
  assert.equal(await compared.getByText("version: 1").count(), 0);
  await page.getByRole("button", { name: "Show all lines" }).click();
  await compared.getByText("version: 1").first().waitFor();
  await saveScreenshot(page, "pipeline-file");
  await page.getByRole("button", { name: "Gateways and stores" }).click();
  await page.getByText("This gateway works alone").waitFor();
  const stores = page.getByRole("table", { name: "Stores of this gateway" });
  await stores.getByRole("row", { name: /^charges\.db SQLite answers \d+/ }).waitFor();
});
