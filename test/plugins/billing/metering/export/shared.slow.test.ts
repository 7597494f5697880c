/** The usage export of gateways that share one PostgreSQL. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startSink, type Sink } from "../../../../e2e/billing-sink.ts";
import { sluice, spawnGateway, type GatewayProcess } from "../../../../e2e/gateway-process.ts";
import { runSql } from "../../../../store/servers.ts";
import { call, charged, pipeline, preparedDatabase } from "../../leases/gateway-fixture.ts";

interface Setup {
  readonly url: string;
  /** Has the data folder of each gateway, under its name. */
  readonly folder: string;
  readonly key: string;
  readonly sink: Sink;
  readonly start: (name: string, more?: Record<string, string>) => Promise<GatewayProcess>;
  readonly run: (name: string, more: Record<string, string>, ...args: string[]) => string;
  /** Creates a workspace and a key, in the data folder of a gateway if `more` has no database. */
  readonly createKey: (name: string, more?: Record<string, string>) => string;
  readonly exported: (...args: string[]) => string[];
}

async function setUp(t: TestContext): Promise<Setup> {
  const url = await preparedDatabase(t);
  const sink = await startSink();
  t.after(() => sink[Symbol.asyncDispose]());
  const folder = mkdtempSync(join(tmpdir(), "sluice-export-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "pipeline.yaml");
  const settings = `{ url: "${sink.url}", every: 20ms, batch: 7, headers: { authorization: "Bearer sink" } }`;
  writeFileSync(
    file,
    pipeline
      .replace("metering: {", `metering: { export: ${settings},`)
      .replace("free: {", "free: { overageUsdPerCu: 1,"),
  );
  const env = (name: string): Record<string, string> => ({
    DATABASE_URL: url,
    DATA_DIR: join(folder, name),
    REPLICA_NAME: name,
  });
  const run: Setup["run"] = (name, more, ...args) =>
    sluice([...args, "--config", file], { ...env(name), ...more });
  const createKey: Setup["createKey"] = (name, more = {}) => {
    const workspace = ["workspaces", "create", "--name", "t", "--plan", "free", "--json"];
    const { id } = JSON.parse(run(name, more, ...workspace));
    return JSON.parse(run(name, more, "keys", "create", "--workspace", id, "--json")).key;
  };
  return {
    url,
    folder,
    key: createKey("command"),
    sink,
    run,
    createKey,
    async start(name, more = {}) {
      mkdirSync(join(folder, name), { recursive: true });
      const gateway = await spawnGateway(file, { ...env(name), ...more });
      t.after(async () => {
        gateway.child.kill("SIGKILL");
        await gateway.exited;
      });
      return gateway;
    },
    exported: (...args) =>
      run("command", {}, "usage", "export", ...args)
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line).id),
  };
}

async function callTimes({ url }: GatewayProcess, key: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) assert.equal(await call(url, key), 200);
}

const idsOf = ({ batches }: Sink): string[] => batches.flat().map(({ id }) => id);

test("one gateway delivers the charges of all; when it is killed, another one continues, and no charge is missing", async (t) => {
  const { url, key, sink, start, exported } = await setUp(t);
  const gateways = { one: await start("one"), two: await start("two") };
  await callTimes(gateways.one, key, 20);
  await callTimes(gateways.two, key, 20);
  await sink.until(() => new Set(idsOf(sink)).size === 40);
  assert.equal(idsOf(sink).length, 40, "no charge was delivered twice");

  sink.mode.answers = false;
  const before = sink.batches.length;
  await Promise.all([callTimes(gateways.one, key, 10), callTimes(gateways.two, key, 10)]);
  await sink.until(() => sink.batches.length > before);
  const [row] = await runSql(
    url,
    "SELECT g.name FROM sluice.jobs j JOIN sluice.gateways g ON g.id = j.holder",
  );
  const holder = row?.["name"] === "one" ? "one" : "two";
  const other = holder === "one" ? "two" : "one";
  gateways[holder].child.kill("SIGKILL");
  await gateways[holder].exited;
  sink.mode.answers = true;
  // As if 45 seconds had passed.
  await runSql(url, "UPDATE sluice.jobs SET until = 0");
  await sink.until(() => new Set(idsOf(sink)).size === 60);
  await callTimes(gateways[other], key, 5);
  await sink.until(() => new Set(idsOf(sink)).size === 65);

  const counts = Map.groupBy(idsOf(sink), (id) => id);
  assert.ok([...counts.values()].every(({ length }) => length <= 2));
  assert.ok(idsOf(sink).length - 65 <= 7, "only the batch in flight came twice");
  assert.deepEqual([...counts.keys()].toSorted(), exported().toSorted());
  assert.equal((await charged(url))?.["charges"], 65);
});

test("after a gateway has delivered its own charges and copied them, the shared export begins after those", async (t) => {
  const { folder, key, sink, start, run, createKey } = await setUp(t);
  const withoutDatabase = { DATABASE_URL: "" };
  const alone = await start("one", withoutDatabase);
  await callTimes(alone, createKey("one", withoutDatabase), 10);
  await sink.until(() => idsOf(sink).length === 10);
  alone.child.kill("SIGTERM");
  await alone.exited;
  // The accounts of the data folder are not needed.
  for (const name of readdirSync(join(folder, "one"))) {
    if (!/^(journal|charges|usage-export)/.test(name)) rmSync(join(folder, "one", name));
  }
  run("one", {}, "store", "copy-charges");
  const shared = await start("one");
  await callTimes(shared, key, 1);
  await sink.until(() => new Set(idsOf(sink)).size === 11);
  assert.equal(idsOf(sink).length, 11);
});
