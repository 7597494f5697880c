/** Tests of the lock and the modes of a data folder, and of the contracts of claims and of `host.storage` on it. */
import assert from "node:assert/strict";
import { statSync, existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { lockStore } from "../../src/store/lock.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";
import { makeFolder } from "../../src/store/make-folder.ts";
import { openClaims } from "../../src/store/claims.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { silentLog } from "../test-log.ts";
import { openFolderSql } from "./open-sql.ts";
import { createSession } from "../../src/store/session.ts";
import { noEntries, storageOf } from "../../src/store/plugin-entries.ts";
import { createPluginEntries } from "../../src/store/plugin-storage.ts";

const inUse = (error: unknown): boolean =>
  error instanceof StoreError && error.code === "SLUICE_STORE_IN_USE" && error.remedy !== "";

/** Code for another process that locks the folder and prints `held`, or the code of the refusal. */
function taking(folder: string): string {
  return `
    const { lockStore } = await import(${JSON.stringify(sourceUrl("src/store/lock.ts"))});
    try {
      globalThis.lock = lockStore(${JSON.stringify(folder)});
      console.log("held");
    } catch (error) {
      console.log(error.code);
    }`;
}

test("one process locks the folder, and disposing releases it", async (t) => {
  const folder = join(temporaryFolder(t), "data");
  const lock = lockStore(folder);
  assert.throws(() => lockStore(folder), inUse);
  assert.equal((await runModule(taking(folder))).out, "SLUICE_STORE_IN_USE\n");
  lock[Symbol.dispose]();
  lock[Symbol.dispose]();
  assert.equal((await runModule(taking(folder))).out, "held\n");
  lockStore(folder)[Symbol.dispose]();
  assert.equal(statSync(join(folder, "gateway.lock")).mode & 0o777, 0o600);
});

test("creates a folder and its missing parent folders with private modes", (t) => {
  const root = temporaryFolder(t);
  makeFolder(join(root, "a", "b", "c"));
  for (const path of ["a", "a/b", "a/b/c"]) {
    assert.equal(statSync(join(root, path)).mode & 0o777, 0o700, path);
  }
});

// D17: Node's recursive mkdir never returns there. The call runs in another process, so that an endless loop ends only
// this test.
test(
  "throws at once if the system cannot create folders",
  { skip: !existsSync("/proc/self") },
  async () => {
    const module = `
    import { makeFolder } from ${JSON.stringify(sourceUrl("src/store/make-folder.ts"))};
    try { makeFolder("/proc/x/y"); } catch (error) { console.log(error.code); }`;
    const { out } = await runModule(module);
    assert.equal(out, "ENOENT\n");
  },
);

/** Code for another process that opens the claims of the folder as `claims` and runs `code`. */
function withClaims(folder: string, code: string): string {
  return `
    const { openClaims } = await import(${JSON.stringify(sourceUrl("src/store/claims.ts"))});
    const { withFolderSql } = await import(${JSON.stringify(sourceUrl("test/store/open-sql.ts"))});
    const { createSession } = await import(${JSON.stringify(sourceUrl("src/store/session.ts"))});
    const { silentLog } = await import(${JSON.stringify(sourceUrl("test/test-log.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/base/clock.ts"))});
    await withFolderSql(${JSON.stringify(folder)}, async (sql) => {
      const claims = await openClaims(sql, createSession(sql.query, systemClock), systemClock, silentLog);
      ${code}
      claims.close();
    });`;
}

test("claims and endings are deleted some time after their end and never before it", async (t) => {
  const clock = manualClock();
  const sql = await openFolderSql(t, temporaryFolder(t), clock);
  const claims = await openClaims(sql, createSession(sql.query, clock), clock, silentLog);
  t.after(() => claims.close());
  const stored = async (): Promise<unknown[]> => {
    await sql.idle();
    const all = "SELECT id FROM sluice.claims UNION ALL SELECT id FROM sluice.endings ORDER BY id";
    return (await sql.query(all)).map(({ id }) => id);
  };
  await claims.claim("a short claim", clock.now() + 60_000);
  await claims.claim("b long claim", clock.now() + 600_000);
  await claims.end("c short session", clock.now() + 60_000);
  await claims.end("d long session", clock.now() + 600_000);
  clock.advance(59_999);
  assert.equal((await stored()).length, 4);
  assert.equal(claims.hasEnded("c short session"), true);
  clock.advance(60_001);
  assert.deepEqual(await stored(), ["b long claim", "d long session"]);
  const ended = ["c short session", "d long session"].map((id) => claims.hasEnded(id));
  assert.deepEqual(ended, [false, true]);
  clock.advance(600_000);
  assert.deepEqual(await stored(), []);
  assert.equal(claims.hasEnded("d long session"), false);
});

test("a granted claim survives SIGKILL", async (t) => {
  const folder = temporaryFolder(t);
  const code = `await claims.claim("a", Date.now() + 60_000); process.kill(process.pid, "SIGKILL");`;
  await runModule(withClaims(folder, code));
  const clock = manualClock();
  const sql = await openFolderSql(t, folder, clock);
  const claims = await openClaims(sql, createSession(sql.query, clock), clock, silentLog);
  t.after(() => claims.close());
  assert.equal(await claims.claim("a", clock.now() + 60_000), false);
});

test("every method rejects after the stop", async (t) => {
  const sql = await openFolderSql(t, temporaryFolder(t));
  const storage = storageOf("acme", createPluginEntries(sql));
  await storage.set("a", "b");
  await sql.close();
  const stopped = /the gateway has stopped/;
  await assert.rejects(storage.get("a"), stopped);
  await assert.rejects(storage.set("a", "b"), stopped);
  await assert.rejects(storage.delete("a"), stopped);
  await assert.rejects(storage.list(), stopped);
});

test("a dry run keeps nothing", async () => {
  const storage = storageOf("acme", noEntries);
  await storage.set("a", "b");
  await storage.delete("a");
  assert.deepEqual([await storage.get("a"), await storage.list()], [undefined, []]);
});
