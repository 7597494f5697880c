import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { Awaitable } from "sluice-gateway/plugin";
import { openAccounts } from "../../../../plugins/billing/accounts/accounts.ts";
import { openGatewayAccountStore } from "../../../../plugins/billing/accounts/embedded/embedded-account-store.ts";
import { openAccountsDatabase } from "../../../../plugins/billing/accounts/embedded/schema.ts";
import { StoreError } from "../../../../src/store/store-error.ts";
import { manualClock } from "../../../../src/testing/clock.ts";
import { temporaryFolder } from "../../../store/folder.ts";
import { accountsFixture, plans } from "./fixture.ts";
import { atOnce } from "../../../../plugins/contracts/at-once.ts";
import { silentLog } from "../../../test-log.ts";

function openIn(dataDir: string): { close(): Awaitable<void> } {
  const clock = manualClock();
  const store = openGatewayAccountStore(dataDir, clock);
  return atOnce(openAccounts({ store, environment: "dev", plans, clock, log: silentLog }));
}

const refusedWith = (code: string) => (error: unknown) => {
  assert.ok(error instanceof StoreError, String(error));
  assert.equal(error.code, code);
  assert.match(`${error.message} ${error.remedy}`, /accounts/);
  return true;
};

test("the first start creates a private folder with an empty database", (t) => {
  const folder = join(temporaryFolder(t), "new", "data");
  void openIn(folder).close();
  assert.equal(statSync(folder).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, "accounts.db")).mode & 0o777, 0o600);
});

test("a database of a newer release stops the start", (t) => {
  const folder = temporaryFolder(t);
  const db = openAccountsDatabase(folder);
  db.exec("PRAGMA user_version = 99");
  db.close();
  assert.throws(() => openIn(folder), refusedWith("SLUICE_STORE_NEWER"));
});

test("a file that is not a database stops the start", (t) => {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, "accounts.db"), "no database at all ".repeat(400));
  assert.throws(() => openIn(folder), refusedWith("SLUICE_STORE_CORRUPT"));
});

test("a database with damaged pages stops the start", (t) => {
  const { db, issue, folder } = accountsFixture(t);
  for (let i = 0; i < 200; i++) issue();
  db.close();
  const file = join(folder, "accounts.db");
  const bytes = readFileSync(file);
  // The first page, which has the schema, is intact. The pages after it are damaged.
  writeFileSync(file, bytes.fill(0x5a, 2 * 4096));
  assert.throws(() => openIn(folder), refusedWith("SLUICE_STORE_CORRUPT"));
});

test("a database with other tables stops the start", (t) => {
  const folder = temporaryFolder(t);
  const db = new DatabaseSync(join(folder, "accounts.db"));
  db.exec("CREATE TABLE recipes (a); PRAGMA user_version = 1");
  db.close();
  assert.throws(() => openIn(folder), refusedWith("SLUICE_STORE_FAILED"));
});

test("a data folder that is a file stops the start", (t) => {
  const file = join(temporaryFolder(t), "data");
  writeFileSync(file, "");
  assert.throws(() => openIn(file), refusedWith("SLUICE_STORE_UNWRITABLE"));
});

test("several services can read one database", (t) => {
  const { open, issue } = accountsFixture(t);
  const header = `Bearer ${issue().text}`;
  const services = [open(), open(), open()];
  assert.ok(services.every((service) => atOnce(service.identify(header)).kind === "key"));
});
