/** Gateways that share one PostgreSQL spend one budget. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../../../plugins/contracts/testing.ts";
import { createSeal } from "../../../../src/store/seal.ts";
import { startFaultProxy } from "../../../store/fault-proxy.ts";
import { createDatabase, runSql, startPgBouncer } from "../../../store/servers.ts";
import { until, upgrade } from "../shipping/fixture.ts";

const secret = "a secret of these gateways";
const pipeline = `version: 1
secret: "${secret}"
server: { port: "\${PORT}" }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}" }
metering: { durability: "\${DURABILITY:-settled}" }
plans: { free: { rps: 100000, includedCu: 1 } }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 7 } }]
    to: discovery
`;

async function preparedDatabase(t: TestContext): Promise<string> {
  const url = await createDatabase(t);
  await upgrade(url, createSeal(secret));
  return url;
}

function start(url: string, more: Readonly<Record<string, string>> = {}): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: url, ...more },
    account: { plan: "free" },
  });
}

async function call({ url }: TestGateway, key: string): Promise<number> {
  const response = await fetch(`${url}/call`, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status;
}

/** Calls the gateways in turn, `parallel` calls at a time, until one call is refused by each. Returns the statuses. */
async function spend(
  gateways: readonly TestGateway[],
  key: string,
  parallel: number,
): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  const caller = async (place: number): Promise<void> => {
    for (let calls = 0; calls < 1_000; calls++) {
      const status = await call(gateways[place % gateways.length]!, key);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 200) return;
    }
  };
  await Promise.all(Array.from({ length: parallel }, (_, place) => caller(place)));
  return statuses;
}

async function sums(url: string): Promise<Record<string, unknown> | undefined> {
  const [row] = await runSql(
    url,
    `SELECT count(*)::int AS charges, sum(used_cu_milli)::int AS used,
       count(DISTINCT request_id)::int AS requests FROM sluice.usage`,
  );
  return row;
}

for (const through of ["directly", "through PgBouncer"] as const) {
  test(`three gateways spend one budget to the last charge, ${through}`, async (t) => {
    const database = await preparedDatabase(t);
    const url = through === "directly" ? database : await startPgBouncer(t, database);
    if (url === undefined) return;
    await using one = await start(url);
    await using two = await start(url);
    await using three = await start(url);
    const statuses = await spend([one, two, three], one.key, 12);
    // 1,000 milli-CU are 142 calls of 7.
    assert.deepEqual(statuses, { 200: 142, 429: 12 });
    assert.deepEqual(await sums(database), { charges: 142, used: 994, requests: 142 });
  });
}
