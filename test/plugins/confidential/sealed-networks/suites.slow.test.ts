/** The suites of SDKs, unchanged, through a local gateway, a gateway that relays, and an enclave. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const root = join(import.meta.dirname, "../../../..");

/** A suite, and the tests in it that are about something else than this way. */
const suites: readonly (readonly [file: string, ...skipped: readonly string[]])[] = [
  // The local gateway has one key, passes everything on, and has one network.
  [
    "test/e2e/chat-openai.test.ts",
    "an error of the gateway itself",
    "usage", // It names the cached tokens, too.
    "which are ignored",
    "for every refusal",
    "paging through the list",
    "pins a network",
  ],
  ["test/e2e/chat-ai-sdk.test.ts", "which are ignored", "each refusal by its status"],
  ["test/e2e/chat-langchain.test.ts", "for every refusal"],
  ["test/plugins/inference/responses/openai.test.ts", "(native)"],
  ["test/plugins/inference/responses/ai-sdk.test.ts", "shows the message of an error"],
  ["test/plugins/inference/responses/agents-sdk.test.ts"],
  ["test/plugins/inference/responses/langchain.test.ts", "for every refusal"],
  [
    "test/plugins/inference/messages/sdk.test.ts",
    "(native)",
    "maps errors to its classes",
    "the credit is used up",
  ],
  ["test/plugins/inference/messages/ai-sdk.test.ts"],
  ["test/plugins/inference/messages/langchain.test.ts", "for every refusal"],
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
