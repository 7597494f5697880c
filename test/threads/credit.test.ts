/** Keys and credit of a gateway with several threads: limits are exact, and every answer has its charge. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { askWith } from "./ask.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";

const price = 10;

async function startThreads(t: TestContext): Promise<TestGateway> {
  const gateway = await startTestGateway({
    strict: false,
    pipeline: `version: 1
server: { port: "\${PORT}", threads: 3 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
lists:
  key: [request-id, authenticate, { authorize: { require: key } }]
routes:
  - { path: /, methods: [GET], run: [{ use: key }, { meter: { price: ${price} } }], to: discovery }
  - { path: /limited, methods: [GET], run: [request-id, authenticate, rate-limit, { authorize: { require: key } }], to: discovery }
`,
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

/** Sends requests on a connection of its own, one after the other. Resolves with their statuses. */
async function ask(url: string, key: string, count: number): Promise<number[]> {
  const statuses: number[] = [];
  await askWith(url, key, ({ status }) => {
    statuses.push(status);
    return statuses.length < count;
  });
  return statuses;
}

test("three threads spend the limit of a key exactly, and every answer is a charge", async (t) => {
  const gateway = await startThreads(t);
  const answers = 200;
  const { key, keyId } = await gateway.issue({ cuLimit24hMilli: answers * price });
  const all = await Promise.all(Array.from({ length: 24 }, () => ask(gateway.url, key, 15)));
  const statuses = all.flat();
  assert.equal(statuses.filter((status) => status === 200).length, answers);
  assert.equal(statuses.filter((status) => status === 429).length, statuses.length - answers);
  const rows = [...readUsage(join(gateway.folder, "data"))];
  assert.deepEqual(
    [rows.length, new Set(rows.map((row) => row.keyId))],
    [answers, new Set([keyId])],
  );
});

test("three threads share the rate of a key", async (t) => {
  const gateway = await startThreads(t);
  const rps = 5;
  const burst = 2 * rps;
  const { key } = await gateway.issue({ rpsLimit: rps });
  const started = performance.now();
  const url = `${gateway.url}/limited`;
  const all = await Promise.all(Array.from({ length: 24 }, () => ask(url, key, 4)));
  const seconds = (performance.now() - started) / 1000;
  const admitted = all.flat().filter((status) => status === 200).length;
  assert.ok(admitted >= burst && admitted <= burst + rps * seconds, `${admitted} in ${seconds} s`);
});
