/** Tests of what is published: files, names of entry points, modules of threads, and the audit of packages. */
import assert from "node:assert/strict";
import { globSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { assetsOf } from "../../.ci/assets.ts";
import manifest from "../../package.json" with { type: "json" };
import { auditResult } from "../../.ci/audit.ts";
import { packageRoot, threadModule } from "../../src/base/package-files.ts";

const root = join(import.meta.dirname, "../..");

test("all files that the sources load in addition to code are published", () => {
  const published = new Set(assetsOf(root));
  const files = globSync("{src,plugins}/**/*.*", { cwd: root }).filter(
    (path) => !/\.ts$|\/(README|notes)\.md$|\/tsconfig\.json$/.test(path),
  );
  assert.ok(files.includes("plugins/dashboard/dashboard/page/index.html"));
  assert.deepEqual(
    files.filter((path) => !published.has(path)),
    [],
  );
});

/** The names of the entry points that have values, and not only types. */
const exported = {
  plugin: `
    contractVersion defineService defineStep defineSurface defineTools gatewayErrors isObject parseJson
    readJsonRpc redact refuse violationsSchema`,
  services: `
    anonymous atCoefficient capabilities createPrice decimalText keyIdPrefix modelJson modelList modelListSchema
    modelSchema parseDecimal parseTime planNames productHalfUp readTokenPrices setPrincipal spendMembers
    toolFailure toolReport`,
  "internal/toolkit": `
    BoundedMap ObjectEnd andThen canonicalJson csvLine durationMs errorCode fragmentPointer guarded
    integerSchema isAbsent isObject jsonExcess late messageOf orElse parseBoundedJson parseJson parseOrUndefined
    pointerKey runGuarded spaceEnd stableJson stringEnd valueEnd withinLimit`,
  client: `
    ConfidentialError VerifiedProvider connect createClientMemory recomputeCost verifiedProvider`,
};

test("the package exports the documented names and no others", async () => {
  assert.deepEqual(manifest.exports, {
    "./plugin": "./src/plugin.ts",
    "./services": "./plugins/contracts/index.ts",
    "./internal/toolkit": "./src/entries/toolkit.ts",
    "./internal/http": "./src/entries/http.ts",
    "./internal/store": "./src/entries/store.ts",
    "./internal/postgres": "./src/entries/postgres.ts",
    "./internal/limits": "./src/entries/limits.ts",
    "./internal/module": "./src/entries/module.ts",
    "./internal/process": "./src/entries/process.ts",
    "./internal/json-schema": "./src/entries/json-schema.ts",
    "./internal/package-files": "./src/base/package-files.ts",
    "./client": "./plugins/client.ts",
    "./testing": "./plugins/contracts/testing.ts",
    "./internal/test-kit": "./src/entries/test-kit.ts",
    "./internal/bare-gateway": "./src/testing/gateway.ts",
    "./package.json": "./package.json",
  });
  for (const [entry, names] of Object.entries(exported)) {
    const found = Object.keys(await import(`sluice-gateway/${entry}`)).toSorted();
    assert.deepEqual(found, names.trim().split(/\s+/), entry);
  }
});

const folders = new Set([
  "node_modules/yaml",
  "node_modules/a/node_modules/bn.js",
  "node_modules/quote",
  "node_modules/curve",
]);
const report = (vulnerabilities: object): string =>
  JSON.stringify({ auditReportVersion: 2, vulnerabilities });
const advisory = (id: string) => ({ source: 1, url: `https://github.com/advisories/${id}` });
const [low, high] = ["GHSA-aaaa-bbbb-2222", "GHSA-cccc-dddd-3333"];

test("the audit reports published packages, and not the tools of development", () => {
  const vulnerable = report({
    yaml: { severity: "high", nodes: ["node_modules/yaml"], via: [advisory(high)] },
    "bn.js": {
      severity: "low",
      nodes: ["node_modules/bn.js", "node_modules/a/node_modules/bn.js"],
      via: [{ source: 7 }],
    },
    vite: { severity: "critical", nodes: ["node_modules/vite"], via: [advisory(high)] },
  });
  assert.deepEqual(auditResult(vulnerable, folders, []), {
    vulnerable: [
      `yaml (high): ${high}, node_modules/yaml`,
      "bn.js (low): 7, node_modules/a/node_modules/bn.js",
    ],
    outdated: [],
  });
  assert.deepEqual(auditResult(report({}), folders, []), { vulnerable: [], outdated: [] });
});

test("an accepted advisory is not reported, also for packages that depend on its package", () => {
  const packages = (...more: readonly object[]) =>
    report({
      quote: { severity: "low", nodes: ["node_modules/quote"], via: ["curve"] },
      curve: { severity: "low", nodes: ["node_modules/curve"], via: [advisory(low), ...more] },
    });
  assert.deepEqual(auditResult(packages(), folders, [low]), { vulnerable: [], outdated: [] });
  assert.deepEqual(auditResult(packages(advisory(high)), folders, [low]).vulnerable, [
    `quote (low): ${high}, node_modules/quote`,
    `curve (low): ${high}, node_modules/curve`,
  ]);
});

test("an accepted advisory that affects no published package is outdated", () => {
  const development = report({
    vite: { severity: "low", nodes: ["node_modules/vite"], via: [advisory(low)] },
  });
  assert.deepEqual(auditResult(development, folders, [low]), { vulnerable: [], outdated: [low] });
});

test("an audit without a result is not taken for a clean one", () => {
  const failed = JSON.stringify({ message: "405 Method Not Allowed", error: { summary: "" } });
  assert.throws(() => auditResult(failed, folders, []), /npm audit has no result/);
  assert.throws(() => auditResult("", folders, []));
});

const sources = globSync("{src,plugins}/**/*.ts", { cwd: packageRoot }).map((file) => ({
  file,
  text: readFileSync(join(packageRoot, file), "utf8"),
}));

// The build finds the modules of threads by the same pattern (.ci/bundle.ts).
test("every module that a thread runs exists, and is named by a string literal", () => {
  const calls = sources.flatMap(({ text }) => text.match(/(?<!function )\bthreadModule\(/g) ?? []);
  const paths = sources.flatMap(({ text }) => [...text.matchAll(/\bthreadModule\("([^"]+)"\)/g)]);
  assert.ok(paths.length >= 6);
  assert.equal(paths.length, calls.length);
  for (const [, path = ""] of paths) {
    assert.ok(existsSync(fileURLToPath(threadModule(path))), path);
  }
});

// In the bundle, the code of a module is in another file than the module.
test("no module finds a file relative to its own location", () => {
  const mayUse = new Set(["src/base/package-files.ts"]);
  const wrong = sources.filter(
    ({ file, text }) =>
      !mayUse.has(file) && /new URL\([^)]*import\.meta\.url|import\.meta\.dirname/.test(text),
  );
  assert.deepEqual(
    wrong.map(({ file }) => file),
    [],
  );
});
