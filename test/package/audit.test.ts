import assert from "node:assert/strict";
import { test } from "node:test";
import { affected } from "../../.ci/audit.ts";

const folders = new Set(["node_modules/yaml", "node_modules/a/node_modules/bn.js"]);
const report = (vulnerabilities: object): string =>
  JSON.stringify({ auditReportVersion: 2, vulnerabilities });

test("the audit reports published packages, and not the tools of development", () => {
  const vulnerable = report({
    yaml: { severity: "high", nodes: ["node_modules/yaml"] },
    "bn.js": {
      severity: "low",
      nodes: ["node_modules/bn.js", "node_modules/a/node_modules/bn.js"],
    },
    vite: { severity: "critical", nodes: ["node_modules/vite"] },
  });
  assert.deepEqual(affected(vulnerable, folders), [
    "yaml (high): node_modules/yaml",
    "bn.js (low): node_modules/a/node_modules/bn.js",
  ]);
  assert.deepEqual(affected(report({}), folders), []);
});

test("an audit without a result is not taken for a clean one", () => {
  const failed = JSON.stringify({ message: "405 Method Not Allowed", error: { summary: "" } });
  assert.throws(() => affected(failed, folders), /npm audit has no result/);
  assert.throws(() => affected("", folders));
});
