/** Tests of the contract of `host.store.replicas`: messages between gateways on one PostgreSQL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { systemClock } from "../../../src/base/clock.ts";
import { createMetrics, type RenderedMetrics } from "../../../src/base/metrics.ts";
import type { Clock, Replicas } from "../../../src/plugin.ts";
import { claimTables } from "../../../src/store/claims.ts";
import { postgresScripts } from "../../../src/store/sql/tables.ts";
import type { SettingsDigests } from "../../../src/store/postgres/gateway-rows.ts";
import { createMessageSeal } from "../../../src/store/postgres/message-seal.ts";
import { upgradeSchema } from "../../../src/store/postgres/migrations.ts";
import { openPostgres } from "../../../src/store/postgres/postgres.ts";
import { PostgresReplicas, replicaMigrations } from "../../../src/store/postgres/replicas.ts";
import { createSeal } from "../../../src/store/seal.ts";
import { manualClock } from "../../../src/testing/clock.ts";
import { startFaultProxy } from "../fault-proxy.ts";
import { createDatabase, runSql, startPgBouncer } from "../servers.ts";
import { keptLog } from "../../test-log.ts";
import { createSession } from "../../../src/store/session.ts";
import { postgresSql } from "../../../src/store/sql/postgres-sql.ts";

const seal = createSeal("a secret of these gateways");

interface Opened {
  readonly replicas: PostgresReplicas;
  readonly metrics: RenderedMetrics;
  readonly logged: readonly string[];
}

async function database(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  const pool = openPostgres({ url, replica: "upgrade", metrics: createMetrics() });
  await upgradeSchema(pool, [...postgresScripts(claimTables), ...replicaMigrations], seal);
  await pool.close();
  return url;
}

async function open(
  t: TestContext,
  url: string,
  name: string,
  { settings = {}, clock = systemClock }: { settings?: SettingsDigests; clock?: Clock } = {},
): Promise<Opened> {
  const metrics = createMetrics();
  const pool = openPostgres({ url, replica: name, metrics });
  t.after(() => pool.close());
  const { log, lines: logged } = keptLog();
  const session = createSession(postgresSql(pool, "session").query, clock);
  const parts = { database: pool, session, clock, log, version: "1.2.3", seal, metrics, settings };
  const replicas = await PostgresReplicas.open(parts);
  t.after(() => replicas.close());
  return { replicas, metrics, logged };
}

function next(replicas: Replicas, topic: string): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>();
  const receiver = replicas.receive(topic, resolve);
  return promise.finally(() => receiver[Symbol.dispose]());
}

test("a message reaches one gateway, or all others, through PgBouncer", async (t) => {
  const direct = await database(t);
  const url = await startPgBouncer(t, direct);
  if (url === undefined) return;
  const [one, two, three] = await Promise.all(["one", "two", "three"].map((n) => open(t, url, n)));
  assert.ok(one && two && three);
  const own = next(one.replicas, "greeting");
  const both = [next(two.replicas, "greeting"), next(three.replicas, "greeting")];
  const value = { text: "é", none: undefined, bytes: Uint8Array.of(1, 2), list: [1.5, null] };
  one.replicas.send("greeting", value);
  for (const received of await Promise.all(both)) {
    const { bytes, ...rest } = received as typeof value;
    assert.deepEqual(rest, { text: "é", none: undefined, list: [1.5, null] });
    assert.deepEqual([...bytes], [1, 2]);
  }
  const only = next(three.replicas, "secret");
  two.replicas.receive("secret", () => assert.fail("it was for another gateway"));
  for (const n of [1, 2, 3]) one.replicas.send("secret", n, three.replicas.id);
  assert.equal(await only, 1);
  assert.equal(await Promise.race([own, Promise.resolve("nothing")]), "nothing");
  assert.deepEqual(await runSql(direct, "SELECT FROM sluice.messages"), []);
});

test("a question is answered by each gateway; one that is dead or does not know it is shown without an answer", async (t) => {
  const url = await database(t);
  const [one, two, three] = await Promise.all(["one", "two", "three"].map((n) => open(t, url, n)));
  assert.ok(one && two && three);
  two.replicas.receive("sum", (value) => Promise.resolve(Number(value) + 1));
  await runSql(
    url,
    "INSERT INTO sluice.gateways VALUES ('x', 'dead', '1', sluice.now_ms() - 60000)",
    "INSERT INTO sluice.gateways VALUES ('y', 'forgotten', '1', sluice.now_ms() - 600000)",
  );
  const answers = await one.replicas.ask("sum", 41);
  assert.deepEqual(
    answers.map(({ name, answer }) => [name, answer]),
    [
      ["dead", undefined],
      ["three", undefined],
      ["two", { value: 42 }],
    ],
  );
  assert.ok((answers[0]?.heardMsAgo ?? 0) >= 60_000);
  await two.replicas.close();
  const left = await one.replicas.ask("sum", 1);
  assert.deepEqual(
    left.map(({ name }) => name),
    ["dead", "three"],
  );
});

test("gateways with other settings are counted, and each difference is logged once", async (t) => {
  const url = await database(t);
  await runSql(
    url,
    `INSERT INTO sluice.gateways VALUES
      ('a', 'same', '1', sluice.now_ms() + 60000, '{"plans": "1", "rate": "1"}'),
      ('b', 'older', '1', sluice.now_ms() + 60000, '{}'),
      ('c', 'newer', '1', sluice.now_ms() + 60000, '{"plans": "1", "more": "1"}'),
      ('d', 'dead', '1', sluice.now_ms() - 5000, '{"plans": "2"}')`,
  );
  const clock = manualClock();
  const settings = { plans: "1", rate: "1" };
  const { replicas, metrics, logged } = await open(t, url, "one", { settings, clock });
  const counted = (): unknown => metrics.read("sluice_gateways_with_other_settings")[0]?.value;
  const beatUntil = async (count: number): Promise<void> => {
    while (counted() !== count) {
      clock.advance(2_000);
      await runSql(url, "SELECT");
    }
  };
  assert.equal(counted(), 0);
  assert.deepEqual(logged, []);
  const other = '{"plans": "2", "rate": "3"}';
  await runSql(url, `UPDATE sluice.gateways SET settings = '${other}' WHERE id = 'a'`);
  await beatUntil(1);
  await runSql(url, `UPDATE sluice.gateways SET settings = '${other}' WHERE id = 'c'`);
  await beatUntil(2);
  const warning =
    "warn other gateways on this database have other settings in these sections, and each gateway applies its own";
  assert.deepEqual(logged, [warning, warning]);
  replicas.setSettings({ plans: "2", rate: "3" });
  await beatUntil(0);
  assert.deepEqual(logged, [
    warning,
    warning,
    "info all gateways on this database have the same settings again",
  ]);
});

test("messages that another deployment has made, or that somebody has changed, are ignored", async (t) => {
  const url = await database(t);
  const { replicas, logged } = await open(t, url, "one");
  const sealed = createMessageSeal(createSeal("another secret")).seal({
    topic: "greeting",
    from: "x",
    value: "forged",
    question: undefined,
  });
  const own = createMessageSeal(seal).seal({
    topic: "greeting",
    from: "x",
    value: "changed",
    question: undefined,
  });
  own[own.length - 1] = (own.at(-1) ?? 0) ^ 1;
  const good = createMessageSeal(seal).seal({
    topic: "greeting",
    from: "x",
    value: "good",
    question: undefined,
  });
  const received = next(replicas, "greeting");
  for (const body of [sealed, own, Buffer.alloc(3), good]) {
    await runSql(
      url,
      `INSERT INTO sluice.messages (receiver, body, until)
       VALUES ('${replicas.id}', '\\x${body.toString("hex")}', 9e15)`,
    );
  }
  assert.equal(await received, "good");
  assert.deepEqual(
    logged,
    Array(3).fill("warn a message in the database was not made by this deployment"),
  );
});

test("while PostgreSQL cannot be reached, messages are dropped with a warning, and later ones arrive", async (t) => {
  const url = await database(t);
  await using proxy = await startFaultProxy(Number(new URL(url).port));
  const through = new URL(url);
  through.port = String(proxy.port);
  const one = await open(t, through.href, "one");
  const two = await open(t, url, "two");
  proxy.refuses = true;
  proxy.reset();
  one.replicas.send("greeting", "lost");
  await assert.rejects(one.replicas.ask("greeting", 1), { code: "SLUICE_STORE_UNREACHABLE" });
  proxy.refuses = false;
  const received = next(two.replicas, "greeting");
  one.replicas.send("greeting", "found");
  assert.equal(await received, "found");
  assert.ok(one.logged.includes("warn messages to other gateways were not sent"));
});

test("a message that is too large is dropped", async (t) => {
  const url = await database(t);
  const { replicas, logged } = await open(t, url, "one");
  replicas.send("greeting", "x".repeat(3 << 20));
  assert.deepEqual(logged, [
    "warn a message to another gateway was dropped: it is too large, or too many are waiting",
  ]);
});
