import assert from "node:assert/strict";
import { test } from "node:test";
import { auditResult } from "../../.ci/audit.ts";

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
