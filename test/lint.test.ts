/** The linter refuses what the design of the repository excludes: each rule fires for one wrong line. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { temporaryFolder } from "./store/folder.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..");

/** Every module needs its own entry in the linter's configuration. */
const modules = globSync("plugins/*/module.ts", { cwd: root }).map((file) =>
  basename(dirname(file)),
);

const core = "The core must not know any module";
const entries = "A plugin must import the core only through its entry points";
const service = "A module must not import another module";
const contracts = "A plugin must import the types of services from sluice-gateway/services";
const onlyContract = "they import only sluice-gateway/plugin";

const wrong: Readonly<Record<string, readonly [text: string, message: string]>> = {
  "src/http/inline.ts": [
    'export let clock: import("../base/clock.ts").Clock;',
    "`import()` type annotations are forbidden",
  ],
  "src/http/plugin.ts": ['import "../../plugins/edge/trace/index.ts";', core],
  "src/commands/services.ts": ['import "sluice-gateway/services";', core],
  "src/testing/services.ts": ['import "sluice-gateway/services";', core],
  "src/base/store.ts": [
    'import "../store/lock.ts";',
    "the files of base import the contract at most",
  ],
  "src/contract/http.ts": ['import "../http/tls.ts";', "must not import from another folder"],
  "src/message/http.ts": ['import "../http/tls.ts";', "This breaks the import order"],
  "src/pipeline/run/load.ts": ['import "../load/load.ts";', "This breaks the import order"],
  "plugins/contracts/own.ts": ['import "sluice-gateway/services";', "belong to no module"],
  ...Object.fromEntries(
    modules.flatMap((module) => [
      [
        `plugins/${module}/a/path.ts`,
        ['import "../../contracts/ledger.ts";', module === "extras" ? onlyContract : contracts],
      ],
      [
        `plugins/${module}/a/core.ts`,
        ['import "../../../src/base/errors.ts";', module === "extras" ? onlyContract : entries],
      ],
      [
        `plugins/${module}/a/other.ts`,
        [`import "../../${module === "edge" ? "tools" : "edge"}/a/b.ts";`, service],
      ],
    ]),
  ),
  "plugins/extras/a/services.ts": ['import "sluice-gateway/services";', onlyContract],
  "plugins/confidential/client/path.ts": [
    'import "../../contracts/price.ts";',
    "This breaks the import order",
  ],
  "plugins/confidential/client/http.ts": [
    'import { quote } from "sluice-gateway/internal/http";',
    "Browsers run this code too",
  ],
};

test("the linter refuses each wrong line, and no right one", async (t) => {
  const folder = temporaryFolder(t);
  // Rules that need types would need the whole project.
  const config = readFileSync(join(root, ".oxlintrc.json"), "utf8");
  writeFileSync(
    join(folder, ".oxlintrc.json"),
    config.replace('"typeAware": true', '"typeAware": false'),
  );
  const files: typeof wrong = {
    ...wrong,
    "plugins/billing/a/right.ts": ['import "sluice-gateway/plugin";', ""],
    "plugins/confidential/client/right.ts": ['import "sluice-gateway/internal/toolkit";', ""],
    "src/base/right.ts": ['import "../contract/log.ts";', ""],
    "plugins/extras/a/right.ts": ['import "sluice-gateway/plugin";', ""],
  };
  for (const [file, [text]] of Object.entries(files)) {
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    writeFileSync(join(folder, file), `${text}\n`);
  }
  const program = join(root, "node_modules/.bin/oxlint");
  const failed = await run(program, ["--format=json"], { cwd: folder }).catch(
    (error: { readonly stdout: string }) => error,
  );
  const { diagnostics } = JSON.parse(failed.stdout) as {
    readonly diagnostics: readonly Record<"filename" | "message" | "help", string>[];
  };
  for (const [file, [, message]] of Object.entries(files)) {
    const found = diagnostics.filter(({ filename }) => filename === file);
    const texts = found.map((each) => `${each.message} ${each.help}`).join("\n");
    if (message === "") assert.equal(texts, "", file);
    else assert.ok(texts.includes(message), `${file}: ${texts || "nothing was found"}`);
  }
});
