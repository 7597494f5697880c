/** The shipped recording is identical to the one that its script makes from the fixtures. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliDecompressSync } from "node:zlib";
import { withoutSpecs } from "../../../e2e/chopsticks.ts";

test("recording the fixtures again gives the shipped file", { skip: withoutSpecs }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-record-"));
  try {
    const out = join(folder, "recording.json.br");
    const script = fileURLToPath(new URL("./record.ts", import.meta.url));
    const env = { ...process.env, LOG_LEVEL: "error" };
    await promisify(execFile)(process.execPath, [script, "--out", out], { env });
    const shipped = await readFile(
      new URL("../../../../plugins/ledger/demo/recording.json.br", import.meta.url),
    );
    // Another release of brotli may compress the same text differently.
    assert.ok(brotliDecompressSync(await readFile(out)).equals(brotliDecompressSync(shipped)));
    assert.ok(shipped.length < 1024 * 1024);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
