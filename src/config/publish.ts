/**
 * The schema with which editors check pipeline.yaml: that of the file with the options of every plugin, and with
 * `${NAME}` allowed for every scalar.
 */
import { isObject } from "../base/is-object.ts";
import type { JsonSchema, Plugin } from "../plugin.ts";
import { formats, isFormat, type Format } from "./formats.ts";
import { sectionsOf } from "./sections.ts";
import { fileSchema } from "./schema.ts";
import { modeSchema, onErrorSchema, timeoutSchema, whenSchema } from "./schema-step.ts";

/** Copied instead of using a `$ref`, because a plugin's schema may have its own `$id`. */
const placeholder: JsonSchema = { type: "string", pattern: "\\$\\{" };

/** Plugins other than these are allowed, with any options. */
export function publishedSchema(plugins: Iterable<Plugin>): JsonSchema {
  const sorted = [...plugins].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const steps = sorted.filter((plugin) => plugin.kind === "step");
  const surfaces = sorted.filter((plugin) => plugin.kind === "surface");
  const tools = sorted.filter((plugin) => plugin.kind === "tools");
  const services = sorted.filter((plugin) => plugin.kind === "service");
  const entries = {
    step: { $ref: "#/$defs/step" },
    surface: { $ref: "#/$defs/surface" },
    tools: { $ref: "#/$defs/tools" },
    fastify: { $ref: "#/$defs/plugin" },
  };
  const file = fileSchema(entries, services);
  const named = services.filter(
    (plugin) => sectionsOf(plugin).length === 0 && plugin.options !== undefined,
  );
  const sections = named.map((plugin): [string, JsonSchema] => [plugin.name, optionsOf(plugin)]);
  const written = writable(file);
  const properties = isObject(written["properties"]) ? written["properties"] : {};
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "pipeline.yaml of Sluice",
    ...written,
    properties: { ...properties, ...Object.fromEntries(sections) },
    $defs: {
      plugin: entry([], {}),
      surface: entry(surfaces, {}),
      tools: entry(tools, {}),
      step: entry(steps, {
        use: { type: "string", description: "Name of a list. All its steps run here." },
        mode: writable(modeSchema),
        when: writable(whenSchema),
        timeoutMs: writable(timeoutSchema),
        onError: writable(onErrorSchema),
      }),
    },
  };
}

function entry(
  plugins: readonly Plugin[],
  beside: Readonly<Record<string, JsonSchema>>,
): JsonSchema {
  const names = plugins.map(({ name, description }) => ({ const: name, description }));
  const options = plugins.map((plugin): [string, JsonSchema] => [
    plugin.name,
    { anyOf: [optionsOf(plugin), { type: "null" }] },
  ]);
  return {
    anyOf: [
      ...(names.length === 0 ? [] : [{ oneOf: names }]),
      {
        type: "string",
        description: "Name of a third-party plugin, or a name from an environment variable.",
      },
      {
        type: "object",
        minProperties: 1,
        properties: { ...beside, ...Object.fromEntries(options) },
        additionalProperties: { type: ["object", "null"] },
      },
    ],
  };
}

function optionsOf({ name, description, options }: Plugin): JsonSchema {
  if (options === undefined) return { description, type: "object", maxProperties: 0 };
  const { $schema: _, ...schema } = options;
  // References inside a plugin's schema are relative to that schema.
  const base = "$defs" in schema ? { $id: `plugins/${name}` } : {};
  return { description, ...base, ...writable(schema) };
}

const single = [
  "additionalProperties",
  "items",
  "contains",
  "not",
  "if",
  "then",
  "else",
  "propertyNames",
];
const listed = ["anyOf", "oneOf", "allOf", "prefixItems"];
const mapped = ["properties", "patternProperties", "$defs", "dependentSchemas"];

/** The schema of the file before environment variables are expanded. */
function writable(schema: JsonSchema): JsonSchema {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    if (single.includes(key) && isObject(value)) result[key] = writable(value);
    else if (listed.includes(key) && Array.isArray(value)) {
      result[key] = value.map((part: unknown) => (isObject(part) ? writable(part) : part));
    } else if (mapped.includes(key) && isObject(value)) {
      result[key] = Object.fromEntries(
        Object.entries(value).map(([name, part]) => [name, isObject(part) ? writable(part) : part]),
      );
    } else if (key !== "format") result[key] = value;
  }
  Object.assign(result, writableFormat(schema));
  if (!refusesPlaceholders(result)) return result;
  const { description, default: fallback, ...rest } = result;
  return {
    ...(description !== undefined && { description }),
    ...(fallback !== undefined && { default: fallback }),
    anyOf: [rest, placeholder],
  };
}

/** Editors know only standard formats. */
function writableFormat({ type, format }: JsonSchema): Readonly<Record<string, unknown>> {
  if (typeof format !== "string" || !isFormat(format))
    return format === undefined ? {} : { format };
  const { pattern, numeric }: Format = formats[format];
  return {
    ...(pattern !== undefined && { pattern }),
    ...(numeric === true && { type: [type, "number"].flat() }),
  };
}

function refusesPlaceholders(schema: Readonly<Record<string, unknown>>): boolean {
  const types = [schema["type"]].flat();
  const isText = types.includes("string");
  if (!isText && types.some((type) => ["integer", "number", "boolean"].includes(String(type)))) {
    return true;
  }
  const isPicky = ["enum", "pattern", "format", "maxLength"].some((key) => key in schema);
  return isPicky && (isText || types[0] === undefined);
}
