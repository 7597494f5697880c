/** The functions of the ledger, called on several connections at once and on connections that break. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeSilent } from "./gateway-fixture.ts";
import { runSql } from "../../../store/servers.ts";
import { grantedOf, setUp, untilBlocked, type Connection } from "./ledger-connections.ts";

for (const end of ["COMMIT", "ROLLBACK"] as const) {
  test(`a batch that is sent twice at once counts once, if the first ends with ${end}`, async (t) => {
    const { database, connect, totals } = await setUp(t);
    const [one, other] = [await connect(), await connect()];
    const { replica } = await one.register();
    await one.lease(replica, 1, { needsMilliCu: [10] });
    await one.run("BEGIN");
    assert.equal((await one.post(replica, 1, 3)).posted, 3);
    const again = other.post(replica, 1, 3);
    await untilBlocked(database);
    await one.run(end);
    assert.equal((await again).posted, 3);
    assert.deepEqual(await totals(), { charges: 3, held: 7 });
  });
}

test("a replica that posts is not fenced, and one that is fenced cannot post", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.lease(first, 1, { needsMilliCu: [10] });
  await makeSilent(database, first);
  await one.run("BEGIN");
  await one.post(first, 1, 2);
  assert.deepEqual(await other.fence(second), [], "its row is locked");
  await one.run("COMMIT");
  assert.deepEqual(await other.fence(second), [], "it has just sent a message");

  await makeSilent(database, first);
  await other.run("BEGIN");
  assert.deepEqual(await other.fence(second), [first]);
  const posting = one.post(first, 3, 2);
  await untilBlocked(database);
  await other.run("COMMIT");
  assert.deepEqual([(await posting).state, (await posting).posted], ["fenced", 2]);
  const leasing = await one.lease(first, 2, { needsMilliCu: [10] });
  assert.deepEqual([leasing.state, leasing.granted], ["fenced", undefined]);
  assert.deepEqual(await totals(), { charges: 2, held: 0 });
});

test("two leases of one scope at once get no more than its limit", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.run("BEGIN");
  assert.equal(grantedOf(await one.lease(first, 1, { needsMilliCu: [60] })), 60);
  const leasing = other.lease(second, 1, { needsMilliCu: [60, 40], hasNewNeeds: true });
  await untilBlocked(database);
  await one.run("COMMIT");
  assert.equal(grantedOf(await leasing), 40);
  assert.deepEqual((await leasing).granted?.[0]?.reached, {
    window: "24h",
    usedMilliCu: 100,
    limitMilliCu: 100,
    clearsAt: undefined,
  });
  assert.deepEqual(await totals(), { charges: 0, held: 100 });
});

test("a lease counts a charge once while its batch is committed", async (t) => {
  const { connect, totals } = await setUp(t);
  const [one, other] = [await connect(), await connect()];
  const { replica: first } = await one.register();
  const { replica: second } = await other.register();
  await one.lease(first, 1, { needsMilliCu: [60] });
  await one.run("BEGIN");
  await one.post(first, 1, 40);
  assert.equal(grantedOf(await other.lease(second, 1, { needsMilliCu: [41] })), 0);
  await one.run("COMMIT");
  assert.equal(grantedOf(await other.lease(second, 2, { needsMilliCu: [41] })), 0);
  assert.equal(grantedOf(await other.lease(second, 3, { needsMilliCu: [40] })), 40);
  assert.deepEqual(await totals(), { charges: 40, held: 60 });
});

test("a server process that ends in the middle leaves nothing, and the message is accepted again", async (t) => {
  const { database, connect, totals } = await setUp(t);
  const one = await connect();
  const { replica } = await one.register();
  await one.lease(replica, 1, { needsMilliCu: [10] });
  const begun = {
    post: (on: Connection) => on.post(replica, 1, 2),
    lease: (on: Connection) => on.lease(replica, 2, { isNew: false, grantedMilliCu: 30 }),
  };
  for (const send of [begun.post, begun.lease]) {
    const broken = await connect();
    await broken.run("BEGIN");
    await send(broken);
    await runSql(
      database,
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND state = 'idle in transaction'`,
    );
    await assert.rejects(broken.run("COMMIT"));
  }
  assert.deepEqual(await totals(), { charges: 0, held: 10 });
  const later = await connect();
  assert.equal((await begun.post(later)).posted, 2);
  assert.equal((await begun.lease(later)).leaseNo, 2);
  assert.deepEqual(await totals(), { charges: 2, held: 28 });
});

test("a message whose reply is lost after the commit has its effect once", async (t) => {
  const { database, proxy, connect, totals } = await setUp(t);
  const { replica } = await (await connect()).register();
  /** Sends a message whose reply is dropped, and then sends it again. `part`: a part of its statement. */
  const sendTwice = async <T>(part: string, send: (on: Connection) => Promise<T>): Promise<T> => {
    const broken = await connect();
    proxy.dropAfter = part;
    proxy.repliesToDrop = 1;
    await assert.rejects(send(broken));
    return send(await connect());
  };
  const leased = await sendTwice("SET lease_no", (on) =>
    on.lease(replica, 1, { needsMilliCu: [10] }),
  );
  assert.deepEqual([leased.leaseNo, leased.granted], [1, undefined], "it has been accepted");
  const restated = { isNew: false, grantedMilliCu: 0, needsMilliCu: [20] };
  assert.equal(grantedOf(await (await connect()).lease(replica, 2, restated)), 20);
  const posted = await sendTwice("sluice.credit_post", (on) => on.post(replica, 1, 5));
  assert.deepEqual([posted.state, posted.posted], ["live", 5]);
  assert.deepEqual(await totals(), { charges: 5, held: 15 });

  // The first registration holds nothing, and is fenced after a while.
  const second = await sendTwice("INSERT INTO sluice.replicas", (on) => on.register());
  await makeSilent(database, replica);
  await runSql(
    database,
    `UPDATE sluice.replicas SET heard_at = heard_at - 11000 WHERE id <> ${second.replica}`,
  );
  const fenced = await sendTwice("SET state = 'fenced'", (on) => on.fence(second.replica));
  assert.deepEqual(fenced, [], "the lost reply had them all");
  const states = await runSql(database, "SELECT state FROM sluice.replicas ORDER BY id");
  assert.deepEqual(
    states.map(({ state }) => state),
    ["fenced", "fenced", "live"],
  );
  assert.deepEqual(await totals(), { charges: 5, held: 0 });
});
