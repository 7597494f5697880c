import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";

const runFile = promisify(execFile);

const subject = new URL("../../src/commands/heap-growth.ts", import.meta.url).href;

/** Allocates and keeps about 360 MiB, during which V8 collects the heap several times. */
const growHeap = `
  import { limitHeapGrowth } from ${JSON.stringify(subject)};
  if (process.argv[1] === "limited") limitHeapGrowth();
  const kept = [];
  while (kept.length < 600) kept.push(Array.from({ length: 10_000 }, () => ({})));
`;

/** Returns how often V8 collected the whole heap. */
async function collections(flags: readonly string[], args: readonly string[]): Promise<number> {
  const command = [...flags, "--trace-gc", "--input-type=module", "--eval", growHeap, ...args];
  const { stdout } = await runFile(process.execPath, command);
  return stdout.match(/Mark-Compact [\d.]+/g)?.length ?? 0;
}

test("a limited heap is collected more often while it grows", async () => {
  const limited = await collections([], ["limited"]);
  const unlimited = await collections([], []);
  assert.ok(limited > unlimited, `${limited} and ${unlimited} collections`);
  // A value on the command line takes precedence.
  const own = await collections(["--heap-growing-percent=100"], ["limited"]);
  assert.ok(own < limited, `${own} and ${limited} collections`);
});
