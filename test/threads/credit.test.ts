/** Keys and credit of a gateway with several threads: limits are exact, every answer has its charge, and failed keys count. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { startTestGateway, type TestGateway } from "../../plugins/contracts/testing.ts";
import { askWith } from "./ask.ts";
import { readUsage } from "../../plugins/billing/metering/read-usage.ts";

const price = 10;

const deadly = `export default {
  kind: "surface", name: "deadly", description: "x", start: () => ({ answer: () => process.exit(3) }),
};`;

async function startThreads(t: TestContext): Promise<TestGateway> {
  const gateway = await startTestGateway({
    strict: false,
    prepare(folder) {
      writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
      writeFileSync(join(folder, "deadly.js"), deadly);
    },
    pipeline: `version: 1
server: { port: "\${PORT}", threads: 3 }
admin: { port: "\${ADMIN_PORT}" }
store: { data: "\${DATA_DIR}" }
plans: { free: { rps: 1000, includedCu: 1, overageUsdPerCu: none } }
lists:
  key: [request-id, authenticate, { authorize: { require: key } }]
plugins: { deadly: ./deadly.js }
routes:
  - { path: /die, methods: [GET], run: [], to: deadly }
  - { path: /, methods: [GET], run: [{ use: key }, { meter: { price: ${price} } }], to: discovery }
  - { path: /guarded, run: [request-id, { authenticate: { failures: 10 } }, { authorize: { require: key } }], to: discovery }
  - { path: "/{id}/purchase", methods: [POST], run: [{ use: key }], to: { workspaces: { do: purchase } } }
  - { path: /limited, methods: [GET], run: [request-id, authenticate, rate-limit, { authorize: { require: key } }], to: discovery }
`,
  });
  t.after(() => gateway[Symbol.asyncDispose]());
  return gateway;
}

async function ask(url: string, key: string, count: number): Promise<number[]> {
  const statuses: number[] = [];
  await askWith(url, key, ({ status }) => {
    statuses.push(status);
    return statuses.length < count;
  });
  return statuses;
}

test("three threads", async (t) => {
  const gateway = await startThreads(t);

  await t.test("spend the limit of a key exactly, and every answer is a charge", async () => {
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

  await t.test("spend purchased credit as soon as the purchase is answered", async () => {
    const { key, workspaceId } = await gateway.issue({
      plan: "free",
      capabilities: ["ledger:read", "workspace:admin"],
    });
    const clients = 24;
    const askAll = async (count: number): Promise<number[]> =>
      (
        await Promise.all(Array.from({ length: clients }, () => ask(gateway.url, key, count)))
      ).flat();
    const included = (await askAll(10)).filter((status) => status === 200).length;
    assert.equal(included, 1_000 / price);
    for (let round = 0; round < 5; round++) {
      const bought = await fetch(`${gateway.url}/${workspaceId}/purchase`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ amount_cu_milli: clients * price }),
      });
      assert.equal(bought.status, 200);
      assert.deepEqual(new Set(await askAll(1)), new Set([200]));
    }
  });

  await t.test("share the rate of a key", async () => {
    const rps = 5;
    const burst = 2 * rps;
    const { key } = await gateway.issue({ rpsLimit: rps });
    const started = performance.now();
    const url = `${gateway.url}/limited`;
    const all = await Promise.all(Array.from({ length: 24 }, () => ask(url, key, 4)));
    const seconds = (performance.now() - started) / 1000;
    const admitted = all.flat().filter((status) => status === 200).length;
    assert.ok(
      admitted >= burst && admitted <= burst + rps * seconds,
      `${admitted} in ${seconds} s`,
    );
  });

  await t.test("block an address that presents unknown keys", async () => {
    const statusOf = async (key: string): Promise<number> => {
      const headers = { authorization: `Bearer ${key}`, connection: "close" };
      return (await fetch(`${gateway.url}/guarded`, { headers })).status;
    };
    // A well-formed key that was never issued.
    const unknown = gateway.key.slice(0, -1) + (gateway.key.endsWith("A") ? "B" : "A");
    const statuses: number[] = [];
    while (statuses.length < 100) statuses.push(await statusOf(unknown));
    // Each thread learns of the block when the main thread has counted its next failure. Alone, each would allow 10.
    const failed = statuses.filter((status) => status === 401).length;
    assert.ok(failed >= 10 && failed < 20, `${failed} failures`);
    assert.equal(await statusOf(gateway.key), 200);
  });
});

test("no charge is lost and no credit stays held when threads end while they charge", async (t) => {
  const gateway = await startThreads(t);
  const answers = 300;
  const clients = 8;
  const deaths = [60, 150];
  const { key } = await gateway.issue({ cuLimit24hMilli: answers * price });
  let answered = 0;
  const spend = async (): Promise<void> => {
    let isRefused = false;
    while (!isRefused) {
      await askWith(gateway.url, key, ({ status }) => {
        isRefused = status === 429;
        if (status === 200) answered++;
        if (answered === deaths[0]) {
          deaths.shift();
          // The connection of this request ends with its thread.
          fetch(`${gateway.url}/die`).catch(() => {});
        }
        return status === 200;
      }).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: clients }, spend));
  assert.equal([...readUsage(join(gateway.folder, "data"))].length, answers);
  // Each client may have lost one answer with each thread.
  assert.ok(answered <= answers && answered >= answers - 2 * clients, `${answered} answers`);
});
