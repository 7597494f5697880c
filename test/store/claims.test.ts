import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { openClaims } from "../../src/store/claims.ts";
import { StoreError } from "../../src/store/store-error.ts";
import { manualClock } from "../../src/testing/clock.ts";
import { temporaryFolder } from "./folder.ts";
import { runModule, sourceUrl } from "./run-module.ts";

/** Code for another process that claims every id of a list and prints how many it was granted. */
function claiming(folder: string, ids: number): string {
  return `
    const { openClaims } = await import(${JSON.stringify(sourceUrl("src/store/claims.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/clock.ts"))});
    const claims = openClaims(${JSON.stringify(folder)}, systemClock);
    let mine = 0;
    for (let i = 0; i < ${ids}; i++) if (claims.claim("id " + i, Date.now() + 60_000)) mine++;
    claims.close();
    console.log(mine);`;
}

test("a claim is deleted some time after its end and never before it", (t) => {
  const clock = manualClock();
  const claims = openClaims(temporaryFolder(t), clock);
  claims.claim("short", clock.now() + 60_000);
  claims.claim("long", clock.now() + 600_000);
  clock.advance(59_999);
  assert.equal(claims.hasEnded("short"), true);
  clock.advance(60_001);
  assert.deepEqual([claims.hasEnded("short"), claims.hasEnded("long")], [false, true]);
  clock.advance(600_000);
  assert.equal(claims.hasEnded("long"), false);
  claims.close();
});

test("if two processes claim the same ids, each id is granted to one of them", async (t) => {
  const folder = temporaryFolder(t);
  const ids = 50;
  const both = await Promise.all([
    runModule(claiming(folder, ids)),
    runModule(claiming(folder, ids)),
  ]);
  for (const { status, err } of both) assert.equal(status, 0, err);
  const [one, other] = both.map(({ out }) => Number(out));
  assert.equal((one ?? 0) + (other ?? 0), ids);
});

test("a granted claim survives SIGKILL", async (t) => {
  const folder = temporaryFolder(t);
  const code = `
    const { openClaims } = await import(${JSON.stringify(sourceUrl("src/store/claims.ts"))});
    const { systemClock } = await import(${JSON.stringify(sourceUrl("src/clock.ts"))});
    openClaims(${JSON.stringify(folder)}, systemClock).claim("a", Date.now() + 60_000);
    process.kill(process.pid, "SIGKILL");`;
  await runModule(code);
  const claims = openClaims(folder, manualClock());
  assert.equal(claims.claim("a", 1), false);
  claims.close();
});

test("an unusable folder is reported at start", () => {
  assert.throws(
    () => openClaims(join("/dev/null", "data"), manualClock()),
    (error) => error instanceof StoreError && error.remedy !== "",
  );
});
