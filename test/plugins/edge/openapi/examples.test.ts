/** Texts and examples of the OpenAPI document: every description is a sentence, and every example fits its schema. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Ajv2020 } from "ajv/dist/2020.js";
import { exampleOf } from "../../../../plugins/edge/openapi/examples.ts";
import { startTestGateway } from "../../../../plugins/contracts/testing.ts";

const shipped = readFileSync(join(import.meta.dirname, "../../../../pipeline.yaml"), "utf8");

/** The shipped pipeline, extended by the surface, the tool and the steps that it does not use. */
const everything = shipped
  .replace("write: false", "write: true")
  .replace(
    "\nroutes:\n",
    `
routes:
  - { path: /forwarded/*, methods: ["*"], run: [{ use: edge }], to: { forward: { upstream: plain } } }
  - path: /validated/{name}
    methods: [POST]
    run:
      - use: edge
      - validate:
          query: { type: object, properties: { n: { type: integer, minimum: 3 } }, required: [n] }
          body: { type: object, properties: { a: { type: string, minLength: 5 } }, required: [a] }
    to: discovery
`,
  )
  .replace("\nupstreams:\n", '\nupstreams:\n  plain: { urls: "http://127.0.0.1:9" }\n');

type Node = Readonly<Record<string, unknown>>;

interface Found {
  readonly at: string;
  readonly node: Node;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null;
}

/** Returns every object of the document for which `wanted` returns true, except inside schemas and examples. */
function find(value: unknown, wanted: (node: Node, at: string) => boolean, at = ""): Found[] {
  if (!isNode(value)) return [];
  const found = wanted(value, at) ? [{ at, node: value }] : [];
  const inside = Object.entries(value).flatMap(([name, member]) =>
    name === "schema" || name === "example" ? [] : find(member, wanted, `${at}/${name}`),
  );
  return [...found, ...inside];
}

async function documentOf(pipeline: string): Promise<Node> {
  await using gateway = await startTestGateway({ pipeline });
  const response = await fetch(`${gateway.url}/openapi.json`);
  assert.equal(response.status, 200);
  return (await response.json()) as Node;
}

describe("the document of a pipeline that uses everything", async () => {
  const document = await documentOf(everything);

  it("describes every response in sentences", () => {
    const responses = find(
      document,
      (node, at) => /\/responses\/[^/]+$/.test(at) && !("$ref" in node),
    );
    assert.ok(responses.length > 20);
    for (const { at, node } of responses) {
      const text = String(node["description"]);
      assert.match(text, /^[A-Z].*\.$/s, at);
      for (const sentence of text.split(/(?<=\.) /)) {
        assert.ok(/^[A-Z]/.test(sentence), `${at}: ${sentence}`);
        assert.ok(sentence.split(" ").length >= 3, `${at}: ${sentence}`);
      }
    }
  });

  it("describes parameters and header fields in sentences", () => {
    const described = find(document, (node) => "schema" in node && "description" in node);
    assert.ok(described.length > 20);
    for (const { at, node } of described) {
      assert.match(String(node["description"]), /^[A-Za-z`].*\.$/s, at);
    }
  });

  it("says of every array what its items are", () => {
    const missing: string[] = [];
    const visit = (value: unknown, at: string): void => {
      if (!isNode(value)) return;
      if (value["type"] === "array" && !("items" in value)) missing.push(at);
      for (const [key, member] of Object.entries(value)) {
        if (key !== "example" && key !== "examples") visit(member, `${at}/${key}`);
      }
    };
    visit(document, "");
    assert.deepEqual(missing, []);
  });

  it("has an example for every schema, and the example is valid", () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false });
    ajv.addSchema({ ...document, $id: "document" });
    const withSchema = find(document, (node) => "schema" in node);
    assert.ok(withSchema.length > 60);
    for (const { at, node } of withSchema) {
      assert.ok("example" in node, `${at} has no example`);
      const pointer = at.replaceAll(/[^/]+/g, (part) => part.replaceAll("~", "~0"));
      const schema = JSON.parse(
        JSON.stringify(node["schema"]).replaceAll('"#/components', '"document#/components'),
      ) as object;
      const isValid = ajv.compile(schema);
      assert.ok(isValid(node["example"]), `${pointer}: ${ajv.errorsText(isValid.errors)}`);
    }
    const { schemas } = document["components"] as {
      readonly schemas: Readonly<Record<string, Node>>;
    };
    for (const [title, schema] of Object.entries(schemas)) {
      const { examples } = schema as { readonly examples?: readonly unknown[] };
      assert.ok(examples !== undefined && examples.length > 0, title);
      for (const example of examples) assert.ok(ajv.validate(schema, example), title);
    }
  });
});

describe("an example", () => {
  const made = (schema: Node): unknown => exampleOf(schema, { isWhole: false });

  it("is taken from the schema, or else made from the schema", () => {
    assert.equal(made({ type: "string", examples: ["given"] }), "given");
    assert.equal(made({ enum: ["a", "b"] }), "a");
    assert.equal(made({ type: "integer", minimum: 5 }), 5);
    assert.equal(made({ type: "integer", maximum: 0 }), 0);
    assert.deepEqual(made({ type: "array", items: { const: 1 } }), [1]);
    assert.deepEqual(
      made({
        type: "object",
        properties: { a: { type: "boolean" }, b: { type: "string" } },
        required: ["a"],
      }),
      { a: true },
    );
  });

  it("is omitted if no example is known for a required part", () => {
    const odd = { type: "string", pattern: "^never-\\d{7}$" };
    assert.equal(made(odd), undefined);
    assert.equal(made({ type: "object", properties: { odd }, required: ["odd"] }), undefined);
    assert.equal(made({ type: "array", items: odd }), undefined);
  });

  it("ends for a recursive schema", () => {
    const schema: { anyOf: object[] } = { anyOf: [] };
    schema.anyOf.push(schema);
    assert.equal(made(schema as unknown as Node), undefined);
  });

  it("is not made from a pattern that is not a regular expression", () => {
    assert.equal(made({ type: "string", pattern: "(" }), undefined);
  });
});
