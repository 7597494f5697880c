import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import {
  chargesPath,
  openChargesDatabase,
} from "../../../../plugins/billing/metering/journal-schema.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { StoreError } from "../../../../src/store/store-error.ts";
import { agentOf, charge, meterFixture, principalOf, take } from "./fixture.ts";

const storeError = (code: string) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error));
  assert.equal(error.code, code);
  assert.notEqual(error.remedy, "");
  return true;
};

test("a reader sees the charges settled before it began and does not block the writer", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  for (let i = 0; i < 300; i++) await charge(meter, principalOf(), 1);
  const rows = readUsage(fixture.dataDir);
  assert.equal(rows.next().value?.usedMilliCu, 1);
  const stranger = principalOf({ key: { id: "key_new" } });
  for (let i = 0; i < 300; i++) await charge(meter, stranger, 2);
  const rest = [...rows];
  assert.equal(rest.length, 299);
  assert.ok(rest.every((row) => row.keyId === "key_1"));
  assert.equal([...readUsage(fixture.dataDir)].length, 600);
});

test("long and non-ASCII texts are kept, and too long ones are cut", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  const requestId = `"é,\\ 漢${"x".repeat(300)}`;
  await take(meter, principalOf({ key: { id: "ключ" } }), 1, { requestId }).settle([
    { surface: "s", method: `m"\n${"ß".repeat(400)}`, costMilliCu: 1 },
  ]);
  const [row] = readUsage(fixture.dataDir);
  assert.equal(row?.keyId, "ключ");
  assert.equal(row?.requestId, requestId.slice(0, 256));
  assert.equal(row?.method, `m"\n${"ß".repeat(253)}`);
});

test("the pricing of an inference is kept even with the longest ids", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  const pricing = {
    network: "confidential-classic",
    coefficient: 1500,
    pricePerTokenNano: "12.5",
    tokenUsdRate: undefined,
    asOf: "2026-11-21T00:00:00.000Z",
  };
  const longPrice = `1000000000.${"0".repeat(29)}1`;
  const classes = {
    prompt: longPrice,
    cached: longPrice,
    completion: longPrice,
    reasoning: longPrice,
  };
  const byClass = { ...pricing, pricePerTokenNano: longPrice, tokenUsdRate: longPrice, classes };
  const quotes = '"'.repeat(128);
  const longest = agentOf(quotes, { version: quotes, sessionId: quotes, provider: quotes });
  const capabilities = Array.from({ length: 16 }, () => "c".repeat(64));
  const about = { requestId: "x".repeat(300), agent: { ...longest, capabilities } };
  const chat = { surface: "chat", method: "chat.completions", model: "M", costMilliCu: 1 };
  await take(meter, principalOf(), 1, about).settle([{ ...chat, pricing }]);
  await take(meter, principalOf(), 1, { requestId: "y" }).settle([
    { ...chat, pricing: { ...pricing, tokenUsdRate: "0.25" } },
    { ...chat, pricing: byClass },
    chat,
  ]);
  const rows = [...readUsage(fixture.dataDir)];
  assert.deepEqual(
    rows.map(({ requestId, agent, pricing: kept }) => [requestId, agent, kept]),
    [
      ["x".repeat(256), longest, pricing],
      ["y", undefined, { ...pricing, tokenUsdRate: "0.25" }],
      ["y", undefined, byClass],
      ["y", undefined, undefined],
    ],
  );
});

test("a missing journal, or a file that is not a journal, is a clear error", (t) => {
  const { dataDir } = meterFixture(t);
  assert.throws(() => [...readUsage(dataDir)], storeError("SLUICE_STORE_FAILED"));
  mkdirSync(dataDir, { recursive: true });
  writeFileSync(chargesPath(dataDir), "not a database, but long enough to be looked at".repeat(40));
  assert.throws(() => [...readUsage(dataDir)], storeError("SLUICE_STORE_CORRUPT"));
});

test("a journal of a newer release is a clear error for readers and for the meter", async (t) => {
  const fixture = meterFixture(t);
  openChargesDatabase(fixture.dataDir).close();
  using db = new DatabaseSync(chargesPath(fixture.dataDir));
  db.exec("PRAGMA user_version = 99");
  assert.throws(() => [...readUsage(fixture.dataDir)], storeError("SLUICE_STORE_NEWER"));
  await assert.rejects(fixture.open(), storeError("SLUICE_STORE_NEWER"));
});

test("a commit with invalid records is a clear error and not a shorter result", async (t) => {
  const fixture = meterFixture(t);
  const meter = await fixture.open();
  await charge(meter, principalOf(), 1);
  await meter.close();
  using db = new DatabaseSync(chargesPath(fixture.dataDir));
  db.exec("UPDATE commits SET records = x'ff00000010000000ffffffffffffffff'");
  assert.throws(() => [...readUsage(fixture.dataDir)], storeError("SLUICE_STORE_FAILED"));
});
