import assert from "node:assert/strict";
import { test } from "node:test";
import { openClaims } from "../../src/store/claims.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { silentLog } from "../test-log.ts";
import { temporaryFolder } from "./folder.ts";
import { openFolderSql } from "./open-sql.ts";
import { runModule, sourceUrl } from "./run-module.ts";
import { createSession } from "../../src/store/session.ts";

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
