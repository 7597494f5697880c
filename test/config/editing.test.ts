/** Tests of the schema for editors of pipeline.yaml, and of the entries that commands add to the file. */
import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { parse } from "yaml";
import { addEntry, hasKey, valueAt, yamlError } from "../../src/config/edit-yaml.ts";
import { schemaText } from "../../src/commands/check.ts";
import { publishedSchema } from "../../src/config/publish.ts";
import { loadShipped } from "../../src/pipeline/load/load.ts";
import type { Plugin } from "../../src/plugin.ts";

interface Case {
  readonly title: string;
  readonly path?: readonly string[];
  readonly before: string;
  readonly after: string;
}

const item = "new";
const pair = "new: ./new.ts";

const lists: readonly Case[] = [
  {
    title: "at the end of a block, before the comments that follow it",
    before: "tools:\n  - a # first - one\n\n  # the end\nroutes: []\n",
    after: "tools:\n  - a # first - one\n  - new\n\n  # the end\nroutes: []\n",
  },
  { title: "without indentation", before: "tools:\n- a\n", after: "tools:\n- a\n- new\n" },
  {
    title: "after items of several lines",
    before: "tools:\n  - # a - comment\n    x:\n      y: 1\n  -\n    z: |\n      text\n",
    after: "tools:\n  - # a - comment\n    x:\n      y: 1\n  -\n    z: |\n      text\n  - new\n",
  },
  { title: "without a last newline", before: "tools:\n  - a", after: "tools:\n  - a\n  - new\n" },
  {
    title: "with the line ends of Windows",
    before: "tools:\r\n  - a\r\nroutes: []\r\n",
    after: "tools:\r\n  - a\r\n  - new\r\nroutes: []\r\n",
  },
  { title: "in brackets", before: "tools: [a] # all\n", after: "tools: [a, new] # all\n" },
  { title: "in empty brackets", before: "tools: []\n", after: "tools: [new]\n" },
  {
    title: "in brackets of several lines",
    before: "tools: [\n  a, # first\n  { b: 1 }, # last\n]\n",
    after: "tools: [\n  a, # first\n  { b: 1 }, new, # last\n]\n",
  },
  {
    title: "below a key without a value",
    before: "tools: # none yet\n  # really\nroutes: []\n",
    after: "tools: # none yet\n  - new\n  # really\nroutes: []\n",
  },
  {
    title: "in a file without the key",
    before: "version: 1",
    after: "version: 1\ntools:\n  - new\n",
  },
  { title: "in an empty file", before: "", after: "tools:\n  - new\n" },
  {
    title: "in a list of a mapping",
    path: ["lists", "edge"],
    before: "lists:\n  edge:\n    - a\n  other: [b]\n",
    after: "lists:\n  edge:\n    - a\n    - new\n  other: [b]\n",
  },
  {
    title: "in an empty list of a mapping",
    path: ["lists", "edge"],
    before: "lists:\n  edge:\n  other: [b]\n",
    after: "lists:\n  edge:\n    - new\n  other: [b]\n",
  },
];

const mappings: readonly Case[] = [
  {
    title: "at the end of a block",
    before: "'plugins':\n    \"a\":\n      ./a.ts # mine\n\n# routes\nroutes: []\n",
    after:
      "'plugins':\n    \"a\":\n      ./a.ts # mine\n    new: ./new.ts\n\n# routes\nroutes: []\n",
  },
  {
    title: "in braces",
    before: "plugins: { a: ./a.ts, }\n",
    after: "plugins: { a: ./a.ts, new: ./new.ts, }\n",
  },
  { title: "in empty braces", before: "plugins: {}\n", after: "plugins: { new: ./new.ts }\n" },
  {
    title: "below a key without a value",
    before: "plugins:\nroutes: []\n",
    after: "plugins:\n  new: ./new.ts\nroutes: []\n",
  },
  {
    title: "after a key without a value",
    before: "plugins:\n  a: # later\nroutes: []\n",
    after: "plugins:\n  a: # later\n  new: ./new.ts\nroutes: []\n",
  },
];

describe("an item is added", () => {
  for (const { title, path = ["tools"], before, after } of lists) {
    it(title, () => assert.equal(addEntry(before, path, item, true), after));
  }
});

describe("a member is added", () => {
  for (const { title, path = ["plugins"], before, after } of mappings) {
    it(title, () => assert.equal(addEntry(before, path, pair, false), after));
  }
});

describe("a file is not changed", () => {
  const refused: readonly (readonly [string, string])[] = [
    ["the value is something else", "tools: a\n"],
    ["the value is null", "tools: ~\n"],
    ["the list is an alias", "base: &base [a]\ntools: *base\n"],
    ["another list would change, too", "tools: &tools [a]\nmore: *tools\n"],
    ["the whole file is in braces", "{ version: 1 }\n"],
    ["the document ends before the end of the file", "---\nversion: 1\n...\n"],
    ["the file is not a mapping", "- a\n"],
  ];
  for (const [title, text] of refused) {
    it(`if ${title}`, () => {
      assert.throws(
        () => addEntry(text, ["tools"], item, true),
        /^Error: tools cannot be extended as it is written; add `- new` to it yourself$/,
      );
    });
  }
  it("if it has no list with the name, or is not valid", () => {
    assert.throws(() => addEntry("a: 1\n", ["lists", "edge"], item, true), /has no lists\.edge/);
    assert.throws(() => addEntry("a: [1\n", ["tools"], item, true), /is not valid YAML/);
  });
});

it("values, keys and the first error of a file are found", () => {
  const text = "lists: { edge: [a], none: }\n";
  assert.deepEqual(valueAt(text, ["lists", "edge"]), ["a"]);
  assert.equal(valueAt(text, ["lists", "edge", "a"]), undefined);
  assert.deepEqual([hasKey(text, ["lists"], "none"), hasKey(text, ["lists"], "x")], [true, false]);
  assert.equal(hasKey("lists: 1\n", ["lists"], "x"), false);
  assert.equal(yamlError(text), undefined);
  assert.match(yamlError("a: 1\na: 2\n") ?? "", /^Map keys must be unique at line 2, column 1/);
});

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
