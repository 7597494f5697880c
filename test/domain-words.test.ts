/** The core knows no domain: the words of the modules do not occur in src. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");

/** Money; the node; inference; the encrypted stream; agents; accounts. */
const words = [
  ["credits?", "charg(?:e|es|ed|ing)", "pric(?:e|es|ed|ing)", "milli-?CU", "CU", "billing"],
  ["ledgers?", "blockchains?", "substrate", "extrinsics?"],
  ["models?", "inference", "chat"],
  ["enclaves?", "confidential", "attest(?:ation|s|ed)?", "TEE"],
  ["MCP"],
  ["accounts?", "workspaces?", "principals?"],
].flat();
/** A word may be a part of a name in camelCase, snake_case or kebab-case, such as `usedCuMilli` or `x-used-cu`. */
const pattern = new RegExp(`(?<![a-z])(?:${words.join("|")})(?![a-z])`, "gi");

const exceptions: Readonly<Record<string, readonly string[]>> = {
  // The output of `sluice explain` and of X-Sluice-Trace has this member, and clients read it.
  "src/pipeline/observe/explanation.ts": ["workspace"],
  "src/commands/explain.ts": ["workspace"],
};

/** Separates the parts of names, and removes names of files of the specification. */
function normalized(text: string): string {
  return text.replaceAll(/\b[\w-]+\.md\b/g, "").replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2");
}

for (const file of globSync("src/**/*.ts", { cwd: root })) {
  test(`${file} has no word of a module`, () => {
    const found = normalized(readFileSync(join(root, file), "utf8")).match(pattern) ?? [];
    const allowed = exceptions[file] ?? [];
    assert.deepEqual(
      found.filter((word) => !allowed.includes(word.toLowerCase())),
      [],
    );
  });
}

test("every exception is needed", () => {
  for (const [file, allowed] of Object.entries(exceptions)) {
    const text = normalized(readFileSync(join(root, file), "utf8")).toLowerCase();
    assert.deepEqual(
      allowed.filter((word) => !text.includes(word)),
      [],
      file,
    );
  }
});
