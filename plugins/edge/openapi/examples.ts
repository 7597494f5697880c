/** Example values for the schemas of the document: those of the keyword `examples`, or else generated ones. */
import type { JsonSchema } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";

interface ExampleHints {
  /** Name of the member or parameter, which hints at its value. */
  readonly name?: string;
  readonly isWhole: boolean;
}

/** Limits the nesting, because a schema may refer to itself. */
const maxDepth = 12;

const hash = `0x${"3f".repeat(32)}`;
const hex = "3f".repeat(32);

const byName: Readonly<Record<string, string>> = {
  address: "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY",
  hash,
  blockHash: hash,
  method: "system_health",
  // The demo model, so that the first request on the page is answered in a demo.
  model: "Demo/Echo-1",
  model_id: "Demo/Echo-1",
  network: "confidential-classic",
  owned_by: "confidential-classic",
  tool: "ledger_getHealth",
  query: "how is credit charged",
  id: "ws_3f3f3f3f3f3f3f3f",
  workspace_id: "ws_3f3f3f3f3f3f3f3f",
  key_id: "key_3f3f3f3f3f3f3f3f",
  request_id: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  "x-request-id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  key: "gateway_dev_3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f3f",
  "idempotency-key": "9b2f7c1e-3d4a-4f5b-8c6d-7e8f9a0b1c2d",
  "mcp-session-id": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  "mcp-protocol-version": "2025-11-25",
  "mcp-method": "tools/call",
  "mcp-name": "ledger_getHealth",
  digest: `sha256:${hex}`,
  evidence_digest: `sha256:${hex}`,
  asOf: "2026-11-21T09:30:00Z",
  rest: "path/below/the/prefix",
};

/** Texts that are tried in this order for a schema with a pattern or a length. */
const texts = [
  "text",
  "gateway_2f6c1b7e",
  hash,
  hex,
  hex.repeat(2),
  `sha256:${hex}`,
  "Pz8_Pz8_Pz8_Pz8_Pz8_Pw",
  "ws_3f3f3f3f3f3f3f3f",
  "https://app.example",
  "2026-11-21",
  "a".repeat(16),
];

const byFormat: Readonly<Record<string, string>> = {
  "date-time": "2026-11-21T09:30:00Z",
  date: "2026-11-21",
  uri: "https://gateway.example.org/",
  origin: "https://app.example",
};

/** Undefined if no value can be generated, such as for an unusual pattern. */
export function exampleOf(schema: JsonSchema, hints: ExampleHints, depth = 0): unknown {
  if (depth > maxDepth) return undefined;
  const { examples, enum: choices, default: fallback } = schema;
  if (Array.isArray(examples) && examples.length > 0) return examples[0] as unknown;
  if ("const" in schema) return schema["const"];
  if (Array.isArray(choices)) return choices[0] as unknown;
  if (fallback !== undefined) return fallback;
  const whole = flattened(schema);
  if (whole !== schema) return exampleOf(whole, hints, depth + 1);
  switch (typeOf(schema)) {
    case "object":
      return objectExample(schema, hints, depth);
    case "array":
      return arrayExample(schema, hints, depth);
    case "integer":
    case "number":
      return numberExample(schema);
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return textExample(schema, hints.name);
  }
}

function typeOf({ type, properties }: JsonSchema): unknown {
  if (Array.isArray(type)) return type[0];
  return type ?? (properties === undefined ? "string" : "object");
}

/** Merges the first alternative and all of `allOf` into the schema. */
function flattened(schema: JsonSchema): JsonSchema {
  const { oneOf, anyOf, allOf, ...rest } = schema;
  const parts = [
    ...schemasIn(oneOf).slice(0, 1),
    ...schemasIn(anyOf).slice(0, 1),
    ...schemasIn(allOf),
  ];
  return parts.length === 0 ? schema : parts.reduce(merged, rest);
}

function merged(one: JsonSchema, other: JsonSchema): JsonSchema {
  const properties = { ...recordIn(one["properties"]), ...recordIn(other["properties"]) };
  const required = [...listIn(one["required"]), ...listIn(other["required"])];
  return {
    ...one,
    ...other,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  };
}

function objectExample(schema: JsonSchema, { isWhole }: ExampleHints, depth: number): unknown {
  const required = listIn(schema["required"]);
  const example: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(recordIn(schema["properties"]))) {
    const isRequired = required.includes(name);
    if (!isRequired && !isWhole) continue;
    const value = exampleOf(schemaIn(property), { name, isWhole }, depth + 1);
    if (value !== undefined) example[name] = value;
    else if (isRequired) return undefined;
  }
  return example;
}

function arrayExample(schema: JsonSchema, wanted: ExampleHints, depth: number): unknown {
  const { items } = schema;
  if (!isObject(items)) return [];
  const item = exampleOf(items, wanted, depth + 1);
  return item === undefined ? undefined : [item];
}

function numberExample({ minimum, maximum }: JsonSchema): number {
  const least = typeof minimum === "number" ? minimum : 0;
  const usual = Math.max(least, 1);
  return typeof maximum === "number" && maximum < usual ? maximum : usual;
}

function textExample(schema: JsonSchema, name = ""): string | undefined {
  const { pattern, format, minLength = 0, maxLength = Infinity } = schema;
  const fits = matcherOf(pattern);
  const named = Object.hasOwn(byName, name) ? byName[name] : undefined;
  const formatted = typeof format === "string" ? byFormat[format] : undefined;
  return [formatted, named, ...texts].find(
    (text) =>
      text !== undefined &&
      fits(text) &&
      text.length >= Number(minLength) &&
      text.length <= Number(maxLength),
  );
}

/** The test is always false if the plugin's pattern is not a regular expression. */
function matcherOf(pattern: unknown): (text: string) => boolean {
  if (typeof pattern !== "string") return () => true;
  try {
    const form = new RegExp(pattern, "u");
    return (text) => form.test(text);
  } catch {
    return () => false;
  }
}

function schemasIn(value: unknown): JsonSchema[] {
  return Array.isArray(value) ? value.map(schemaIn) : [];
}

function schemaIn(value: unknown): JsonSchema {
  // `true` is also a schema, which accepts anything.
  return isObject(value) ? value : {};
}

function recordIn(value: unknown): Readonly<Record<string, unknown>> {
  return schemaIn(value);
}

function listIn(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
