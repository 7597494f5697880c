import type { TestContext } from "node:test";
import {
  startTestGateway,
  type TestGateway,
  type WantedKey,
} from "../../../../plugins/contracts/testing.ts";
import { runSql } from "../../../store/servers.ts";
import { createUpgradedDatabase } from "../../../store/upgraded-database.ts";

export const secret = "a secret of these gateways";

/** A call of `/call` costs 7 milli-CU, and one of `/held`, which an upstream answers, costs 50. */
export const pipeline = `version: 1
secret: "${secret}"
server: { host: 127.0.0.1, port: "\${PORT}" }
admin: { host: 127.0.0.1, port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}", postgres: "\${DATABASE_URL}", replica: "\${REPLICA_NAME:-}" }
metering: { durability: "\${DURABILITY:-settled}" }
plans: { free: { rps: 100000, includedCu: 1 } }
upstreams: { held: { urls: "\${HELD_URL:-http://127.0.0.1:9}" } }
routes:
  - path: /call
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 7 } }]
    to: discovery
  - path: /held
    methods: [GET]
    run: [request-id, authenticate, { authorize: { require: key } }, { meter: { price: 50 } }]
    to: { forward: { upstream: held } }
`;

export function preparedDatabase(t: TestContext, ofGateways = secret): Promise<string> {
  return createUpgradedDatabase(t, ofGateways);
}

/** Starts a gateway on the database, with a key of the free plan. */
export function startOn(
  url: string,
  env: Readonly<Record<string, string>> = {},
  account: WantedKey = { capabilities: ["workspace:admin"] },
): Promise<TestGateway> {
  return startTestGateway({
    pipeline,
    env: { DATABASE_URL: url, ...env },
    account: { plan: "free", ...account },
  });
}

export async function metric({ adminUrl }: TestGateway, name: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1]);
}

export async function call(url: string, key: string): Promise<number> {
  const response = await fetch(`${url}/call`, { headers: { authorization: `Bearer ${key}` } });
  await response.text();
  return response.status;
}

/** Calls the gateways in turn, `parallel` at a time, until all callers are refused. Returns call counts by status. */
export async function spend(
  urls: readonly string[],
  key: string,
  parallel: number,
): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  const caller = async (place: number): Promise<void> => {
    for (let calls = 0; calls < 1_000; calls++) {
      const status = await call(urls[place % urls.length] ?? "", key);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status !== 200) return;
    }
  };
  await Promise.all(Array.from({ length: parallel }, (_, place) => caller(place)));
  return statuses;
}

export async function charged(url: string): Promise<Record<string, unknown> | undefined> {
  const [row] = await runSql(
    url,
    `SELECT count(*)::int AS charges, coalesce(sum(used_cu_milli), 0)::int AS used,
       count(DISTINCT request_id)::int AS requests FROM sluice.usage`,
  );
  return row;
}

/** Sets back the last heartbeat of a replica, by its name or id, as if it had been silent for 11 seconds. */
export async function makeSilent(url: string, replica: string | number): Promise<void> {
  await runSql(
    url,
    "UPDATE sluice.replicas SET registered_at = registered_at - 11000",
    `UPDATE sluice.replicas SET heard_at = heard_at - 11000 WHERE '${replica}' IN (name, id::text)`,
  );
}
