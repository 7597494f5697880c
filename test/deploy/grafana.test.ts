/** The dashboard and the alert rules in deploy/grafana. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { createMetrics } from "../../src/base/metrics.ts";

const root = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const dashboard = JSON.parse(read("deploy/grafana/dashboard.json")) as {
  panels: readonly {
    id: number;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets?: readonly { expr: string }[];
  }[];
  annotations: { list: readonly { expr: string }[] };
};
const alerts = parse(read("deploy/grafana/alerts.yaml")) as {
  groups: { rules: { alert: string; expr: string; annotations: Record<string, string> }[] }[];
};
const rules = alerts.groups.flatMap((group) => group.rules);
const expressions = [
  ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
  ...dashboard.annotations.list.map(({ expr }) => expr),
  ...rules.map(({ expr }) => expr),
];

function metricsIn(expression: string): string[] {
  const names = expression.match(/\b(sluice|gen_ai|process|nodejs)_\w+(?=[{[) =]|$)/g) ?? [];
  // Labels of the generative AI metrics have the same prefix.
  return names.filter((name) => name !== "gen_ai_token_type");
}

test("every metric of the dashboard and the alerts exists", async () => {
  // test/docs/tables.test.ts compares this table with /metrics of a gateway. Those of models are in call-metrics.ts.
  const documented = read("docs/operations.md").match(/(?<=^\| `)sluice_\w+/gm) ?? [];
  const source = read("plugins/inference/networks/call-metrics.ts");
  const models = source.match(/(?<=")gen_ai_\w+(?=")/g) ?? [];
  const process = (await createMetrics().render()).match(/(?<=^# TYPE )\w+/gm) ?? [];
  const known = new Set([...documented, ...models, ...process]);
  const used = new Set(expressions.flatMap(metricsIn));
  assert.ok(used.size > 25);
  const unknown = [...used].filter(
    (name) => !known.has(name) && !known.has(name.replace(/_(bucket|sum|count)$/, "")),
  );
  assert.deepEqual(unknown, []);
});

test("the metrics that docs/operations.md tells operators to watch are in the dashboard and the alerts", () => {
  const page = read("docs/operations.md");
  const sentence = /Watch at least ([^]*?)\. /.exec(page)?.[1] ?? "";
  const watched = sentence.match(/sluice_\w+/g) ?? [];
  assert.ok(watched.length >= 5);
  for (const name of watched) {
    assert.ok(
      dashboard.panels.some((panel) => panel.targets?.some(({ expr }) => expr.includes(name))),
      name,
    );
    // An alert uses the metric, or sends the operator to it.
    const inAlerts = rules.map((rule) => rule.expr + rule.annotations["description"]);
    assert.ok(
      inAlerts.some((text) => text.includes(name)),
      name,
    );
  }
});
