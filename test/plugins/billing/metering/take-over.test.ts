/** Tests of the service `metering` on the charges of an earlier release, which kept them in journal.db: see test/fixtures/billing. */
import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  linkSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { gunzipSync } from "node:zlib";
import { commitsWithin } from "../../../../plugins/billing/metering/journal-reader.ts";
import {
  openChargesDatabase,
  chargesPath,
  earlierPath,
} from "../../../../plugins/billing/metering/journal-schema.ts";
import { readPurchasedDrawn } from "../../../../plugins/billing/metering/usage/folder-charges.ts";
import { Sums } from "../../../../plugins/billing/metering/sums.ts";
import { openDatabase } from "../../../../src/store/sqlite.ts";
import { damage } from "../../../store/damage.ts";
import { embeddedFolder } from "../../../fixtures/billing/fixtures.ts";
import { meterFixture, type MeterFixture } from "./fixture.ts";

function earlierFolder(t: TestContext): MeterFixture {
  const fixture = meterFixture(t);
  openDatabase(join(fixture.dataDir, "folder.db"), []).close();
  for (const name of readdirSync(embeddedFolder)) {
    if (!name.startsWith("journal.db") && !name.startsWith("spend.db")) continue;
    const bytes = gunzipSync(readFileSync(join(embeddedFolder, name)));
    writeFileSync(join(fixture.dataDir, name.replace(/\.gz$/, "")), bytes);
  }
  fixture.clock.advance(Date.UTC(2026, 11, 1) - fixture.clock.now());
  return fixture;
}

async function takenOver({ dataDir, open, rows }: MeterFixture): Promise<{
  readonly rows: unknown;
  readonly drawn: unknown;
  readonly spend: unknown;
}> {
  const meter = await open();
  const range = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2027, 0, 1) };
  const spend = await meter.usage.spend({
    workspaceId: undefined,
    ...range,
    by: "method",
    limit: 100,
  });
  assert.equal(spend.kind, "done");
  const content = { rows: rows(), spend, drawn: readPurchasedDrawn(dataDir) };
  await meter.close();
  return content;
}

/** Opens the file in the way of an earlier release, which knows one script. */
function openEarlier(file: string): void {
  openDatabase(file, ["SELECT 1"]).close();
}

const newer = { code: "SLUICE_STORE_NEWER", remedy: /Run the release that wrote it/ };

test("an earlier release refuses a folder whose charges were taken over, and the sums of the past are removed", async (t) => {
  const fixture = earlierFolder(t);
  const { dataDir } = fixture;
  openEarlier(earlierPath(dataDir));
  const rows = fixture.rows();
  const drawn = readPurchasedDrawn(dataDir);
  assert.ok(rows.length > 5 && drawn.size > 0);
  const content = await takenOver(fixture);
  assert.deepEqual([content.rows, content.drawn], [rows, drawn]);
  assert.throws(() => openEarlier(earlierPath(dataDir)), newer);
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith("spend.db") || name.endsWith(".next")),
    [],
  );
  assert.deepEqual(await takenOver(fixture), content);
});

test("a takeover that was interrupted at any step is continued by the next start", async (t) => {
  const expected = await takenOver(earlierFolder(t));
  const files = (dataDir: string): [string, string] => [earlierPath(dataDir), chargesPath(dataDir)];
  const steps: Readonly<Record<string, (dataDir: string) => void>> = {
    "while the empty file was written": (dataDir) => {
      writeFileSync(`${earlierPath(dataDir)}.next`, "SQLite");
    },
    "before the earlier file was replaced": (dataDir) => {
      const [earlier, file] = files(dataDir);
      const db = openDatabase(earlier, ["SELECT 1"]);
      db.exec("PRAGMA journal_mode = DELETE");
      db.close();
      linkSync(earlier, file);
    },
    "before the tables were added": (dataDir) => {
      const [earlier, file] = files(dataDir);
      const db = openDatabase(earlier, ["SELECT 1"]);
      db.exec("PRAGMA journal_mode = DELETE");
      db.close();
      copyFileSync(earlier, file);
      writeFileSync(earlier, "");
      openDatabase(earlier, ["", ""]).close();
    },
    "before the sums of the past were removed": (dataDir) => {
      const sums = readFileSync(join(dataDir, "spend.db"));
      openChargesDatabase(dataDir).close();
      writeFileSync(join(dataDir, "spend.db"), sums);
    },
    "while the charges were added up": (dataDir) => {
      const db = openChargesDatabase(dataDir);
      const sums = Sums.load(db);
      const [first, second] = commitsWithin(db, -Infinity, Infinity);
      for (const commit of [first, second]) sums.add(commit?.records ?? Buffer.alloc(0));
      sums.write(db, second?.seq ?? 0);
      db.close();
    },
  };
  for (const [step, interrupt] of Object.entries(steps)) {
    const fixture = earlierFolder(t);
    interrupt(fixture.dataDir);
    assert.deepEqual(await takenOver(fixture), expected, step);
    assert.throws(() => openEarlier(earlierPath(fixture.dataDir)), newer, step);
    assert.ok(!existsSync(join(fixture.dataDir, "spend.db")), step);
  }
});

test("a damaged journal of an earlier release, or one beside other charges, is named, and no charges.db is made of it", async (t) => {
  const fixture = earlierFolder(t);
  const [earlier, file] = [earlierPath(fixture.dataDir), chargesPath(fixture.dataDir)];
  const bytes = readFileSync(earlier);
  damage(earlier, 1);
  await assert.rejects(fixture.open(), { code: "SLUICE_STORE_CORRUPT", message: /journal\.db/ });
  assert.ok(!existsSync(file));
  writeFileSync(earlier, bytes);
  openDatabase(file, ["SELECT 1"]).close();
  await assert.rejects(fixture.open(), {
    code: "SLUICE_STORE_FAILED",
    message: /journal\.db and .*charges\.db both have charges/,
  });
});
