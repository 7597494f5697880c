/** Tests pipeline.schema.json as editors use it: on the text of the file, before environment variables are expanded. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { schemaText } from "../../src/commands/check.ts";
import { publishedSchema } from "../../src/config/publish.ts";
import { loadShipped } from "../../src/pipeline/load/load.ts";
import type { Plugin } from "../../src/plugin.ts";

const root = join(import.meta.dirname, "..", "..");
const { plugins } = await loadShipped();
const published = publishedSchema(plugins.values());

/** A validator like that of an editor, which does not know Sluice's own formats. */
function validator(schema: object): (text: string) => boolean {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const validate = ajv.compile(schema);
  return (text) => validate(parse(text));
}

const accepts = validator(published);

test("the committed pipeline.schema.json is the generated one (npm run schema)", () => {
  const committed = readFileSync(join(root, "pipeline.schema.json"), "utf8");
  assert.equal(committed, schemaText(published));
});

test("the shipped pipeline.yaml matches the schema as written", () => {
  assert.ok(accepts(readFileSync(join(root, "pipeline.yaml"), "utf8")));
});

test("the good golden cases match the schema as written", () => {
  for (const name of ["smallest", "every-section", "order-of-nested-lists", "environment"]) {
    const path = join(import.meta.dirname, "cases", `good-${name}.case`);
    const [text = ""] = readFileSync(path, "utf8").split("\n----\n");
    assert.ok(accepts(text), name);
  }
});

test("a placeholder is allowed for every scalar", () => {
  const routes = "routes: [{ path: /a, to: echo }]";
  assert.ok(accepts(`version: 1\nserver: { port: "\${PORT}", host: "\${H}" }\n${routes}`));
  assert.ok(accepts(`version: 1\nlog: { level: "\${L:-info}" }\n${routes}`));
  assert.ok(!accepts(`version: 1\nserver: { port: "8080" }\n${routes}`));
});

test("the schema refuses unknown keys, wrong values and wrong options of a shipped plugin", () => {
  const routes = "routes: [{ path: /a, to: echo }]";
  assert.ok(!accepts(`version: 1\nsever: {}\n${routes}`));
  assert.ok(!accepts(`version: 1\nplans: { gold: {} }\n${routes}`));
  assert.ok(!accepts(`version: 1\nunmatched: [{ authorize: { requires: x } }]\n${routes}`));
  assert.ok(!accepts(`version: 1\nunmatched: [{ request-id: {}, mode: shade }]\n${routes}`));
  assert.ok(!accepts(`version: 1\ntools: [{ ledger-tools: { writes: true } }]\n${routes}`));
  assert.ok(accepts(`version: 1\ntools: [{ ledger-tools: { write: true } }]\n${routes}`));
});

test("references inside a plugin's options schema are relative to that schema", () => {
  const plugin: Plugin = {
    kind: "step",
    name: "tree",
    description: "Has a schema that refers to itself.",
    options: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      additionalProperties: false,
      properties: { root: { $ref: "#/$defs/node" } },
      $defs: {
        node: {
          type: "object",
          additionalProperties: false,
          properties: { size: { type: "integer" }, next: { $ref: "#/$defs/node" } },
        },
      },
    },
    start: () => ({}),
  };
  const fits = validator(publishedSchema([plugin]));
  const file = (options: string): string =>
    `version: 1\nunmatched: [{ tree: ${options} }]\nroutes: [{ path: /a, to: echo }]`;
  assert.ok(fits(file('{ root: { next: { size: "${SIZE}" } } }')));
  assert.ok(fits(file("{ root: { next: { size: 3 } } }")));
  assert.ok(!fits(file("{ root: { next: { size: x } } }")));
});
