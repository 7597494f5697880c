/** A process that charges is repeatedly killed with SIGKILL. The journal must contain every acknowledged charge. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { systemClock } from "../../../../src/clock.ts";
import { readUsage } from "../../../../plugins/billing/metering/read-usage.ts";
import { meterFixture } from "./fixture.ts";

const rounds = 20;
const child = fileURLToPath(new URL("kill-child.ts", import.meta.url));

/** Starts the child and kills it after it has acknowledged `charges`. Returns everything that it printed. */
async function runAndKill(dataDir: string, round: number, charges: number): Promise<string[]> {
  const process_ = spawn(process.execPath, [child, dataDir, `${round}`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = once(process_, "exit");
  let said = "";
  for await (const chunk of process_.stdout) {
    said += String(chunk);
    if (said.split("\n").length > charges + 1) process_.kill("SIGKILL");
  }
  const [, signal] = await exit;
  assert.equal(signal, "SIGKILL", `the child ended by itself: ${said}`);
  // An incomplete last line does not count.
  const lines = said.slice(0, said.lastIndexOf("\n")).split("\n");
  assert.equal(lines[0], "ready");
  return lines.slice(1);
}

test("every acknowledged charge is in the journal exactly once after SIGKILL, however often", async (t) => {
  const fixture = meterFixture(t);
  const acknowledged: string[] = [];
  for (let round = 0; round < rounds; round++) {
    // From the first charge to several hundred, so that kills happen during commits, checkpoints and starts.
    acknowledged.push(...(await runAndKill(fixture.dataDir, round, 1 + ((round * 37) % 300))));
  }
  const rows = [...readUsage(fixture.dataDir)];
  const linesOf = new Map<string, number>();
  for (const row of rows) linesOf.set(row.requestId, (linesOf.get(row.requestId) ?? 0) + 1);
  assert.ok(acknowledged.length >= rounds);
  for (const id of acknowledged) assert.ok(linesOf.has(id), `${id} was acknowledged and is lost`);
  for (const [id, lines] of linesOf) {
    const isBatch = Number(id.split("-")[1]) % 7 === 0;
    assert.equal(lines, isBatch ? 3 : 1, `${id} has ${lines} lines`);
  }
  assert.equal(new Set(rows.map((row) => row.id)).size, rows.length);

  const meter = await fixture.open({ clock: systemClock });
  for (const key of ["key_a", "key_b", "key_c"]) {
    const charged = rows
      .filter((row) => row.keyId === key)
      .reduce((sum, row) => sum + row.usedMilliCu, 0);
    assert.deepEqual(meter.keyUsage(key), {
      dayMilliCu: charged,
      monthMilliCu: charged,
      openMilliCu: 0,
    });
  }
  const drawn = rows.reduce((sum, row) => sum + row.includedMilliCu, 0);
  assert.equal(meter.workspaceUsage("ws_1").includedMilliCu, drawn);
});
