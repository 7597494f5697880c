/** The guides in docs/deploy name files, values of the chart and variables that exist. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { root } from "./tables.ts";

const guides = globSync("docs/deploy/*.md", { cwd: root }).toSorted();

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

for (const guide of guides) {
  test(`the commands of ${guide} name files that exist`, () => {
    const commands = [...read(guide).matchAll(/^```\n([^]*?)^```$/gm)].map(([, text = ""]) => text);
    assert.ok(commands.length > 0);
    const text = commands.join("");
    // Files that the commands write, or that a mount brings.
    const written = new Set([...text.matchAll(/> (deploy\/\S+)/g)].map(([, file]) => file));
    for (const [file] of text.matchAll(/(?<=[ (])deploy\/[\w./-]+/g)) {
      assert.ok(written.has(file) || existsSync(join(root, file)), file);
    }
  });
}

test("the guide of the chart sets values that exist", () => {
  const values: unknown = parse(read("deploy/chart/values.yaml"));
  const guide = read("docs/deploy/kubernetes.md");
  const set = [...guide.matchAll(/--set(?:-file)? ([\w.]+)=/g)].map(([, name = ""]) => name);
  const named = [
    ...guide.matchAll(/`((?:httpRoute|ingress|tls|autoscaling|networkPolicy|metrics)\.[\w.]+)`/g),
  ].map(([, name = ""]) => name);
  assert.ok(set.length >= 3 && named.length >= 3);
  // Each variable is a member of `variables`.
  const known = set.map((name) => name.replace(/^variables\..*/, "variables"));
  for (const name of [
    ...known,
    ...named,
    "terminationGracePeriodSeconds",
    "durability",
    "env",
    "envFrom",
    "extraVolumes",
  ]) {
    let value: unknown = values;
    for (const part of name.split(".")) {
      assert.ok(typeof value === "object" && value !== null && part in value, name);
      value = (value as Record<string, unknown>)[part];
    }
  }
});
