/**
 * No regular expression takes more than linear time, except those whose input comes from the operator or the code. One
 * with quadratic time let a few keys hold the whole gateway (finding S4).
 */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parseSync } from "oxc-parser";
import { analyse } from "scslre";

const root = join(import.meta.dirname, "..");

/** Regular expressions that clients and backends do not reach with long text, by file. */
const accepted: Readonly<Record<string, readonly string[]>> = {
  // URLs and paths in pipeline.yaml, in options of commands or in options of the client.
  "plugins/inference/networks/openai-transport.ts": ["/\\/+$/"],
  "plugins/edge/openapi/parameters.ts": ["/\\{([^}]+)\\}/g"],
  "plugins/edge/openapi/viewer/viewer.js": ["/\\{([^}]+)\\}/g"],
  "plugins/confidential/evidence/revocation-list.ts": ["/\\/+$/"],
  "plugins/confidential/commands/verify.ts": ["/(\\/v1\\/confidential\\/stream)?\\/*$/"],
  "plugins/confidential/client/options.ts": ["/\\/+$/"],
  "plugins/confidential/sealed-networks/sealed-networks.ts": ["/\\/+$/"],
  // Formatted numbers, and names of members in the code.
  "plugins/dashboard/dashboard/money.ts": ["/0+$/"],
  "plugins/billing/accounts/json.ts": ["/[A-Z]|\\d+(?=[a-z])/g"],
  // The page that the package contains.
  "plugins/dashboard/dashboard/pages.ts": [
    '/ *<link rel="stylesheet" href="\\/dashboard\\/assets\\/([^"]+)" \\/>\\n/g',
  ],
  // Paths and files of plugins, and the stack of an error that ends the process.
  "src/pipeline/load/plugin-of-stack.ts": ["/^\\s+at (?:.*\\()?(.+?):\\d+:\\d+\\)?$/gm"],
  // Where its first alternative fails on a run of capitals, the third one takes the whole run.
  "plugins/tools/docs-search/terms.ts": [
    "/\\p{Lu}+(?=\\p{Lu}\\p{Ll})|\\p{Lu}?[\\p{Ll}\\p{Lo}\\p{M}]+|\\p{Lu}+|\\p{N}+/gu",
  ],
};

test("regular expressions on input of clients and backends take linear time", () => {
  const found: Record<string, readonly string[]> = {};
  for (const file of globSync("{src,plugins}/**/*.{ts,js}", { cwd: root })) {
    const literals: string[] = [];
    collect(parseSync(file, readFileSync(join(root, file), "utf8")).program, literals);
    if (literals.length > 0) found[file] = literals;
  }
  assert.deepEqual(found, accepted);
});

test("the check finds the expression of finding S4", () => {
  const literals: string[] = [];
  collect(parseSync("a.ts", "text.replace(/^[ \\t]+|[ \\t]+$/g, '')").program, literals);
  assert.deepEqual(literals, ["/^[ \\t]+|[ \\t]+$/g"]);
});

/** Adds the regular expressions below a node of the syntax tree that can take more than linear time. */
function collect(node: unknown, literals: string[]): void {
  if (typeof node !== "object" || node === null) return;
  if ("regex" in node) {
    // The parser sets the member for literals only.
    const { pattern, flags } = node.regex as { readonly pattern: string; readonly flags: string };
    const { reports } = analyse({ source: pattern, flags });
    if (reports.length > 0) literals.push(`/${pattern}/${flags}`);
  }
  for (const child of Object.values(node)) collect(child, literals);
}
