/** The suites of SDKs, unchanged, through a local gateway, a gateway that relays, and an enclave. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const root = join(import.meta.dirname, "../../../..");

/** A suite, and the tests in it that are about something else: other workers, other networks, keys of the gateway. */
const suites: readonly (readonly [file: string, ...skipped: readonly string[]])[] = [
  [
    "test/clients/clients.slow.test.ts",
    "workers that have it",
    "a network that passes no tools",
    "recognizes every refusal",
  ],
];

for (const [file, ...skipped] of suites) {
  test(`${file} passes, encrypted`, { timeout: 240_000 }, async () => {
    const skips = skipped.map(
      (title) => `--test-skip-pattern=${title.replaceAll(/[()]/g, String.raw`\$&`)}`,
    );
    const suite = spawn(process.execPath, ["--test", ...skips, join(root, file)], {
      cwd: root,
      env: {
        ...process.env,
        // The runner would take it for a file of its own run.
        NODE_TEST_CONTEXT: undefined,
        SLUICE_TEST_CHAT: join(import.meta.dirname, "chain-for-clients.ts"),
      },
    });
    const [output, [code]] = await Promise.all([text(suite.stdout), once(suite, "exit")]);
    assert.equal(code, 0, output);
    assert.doesNotMatch(output, /pass 0$/m);
  });
}
