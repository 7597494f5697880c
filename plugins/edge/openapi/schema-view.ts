/** Shows a JSON Schema as a readable list of members. */
import type { JsonSchema } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/toolkit";
import { html, inlineMarkup, type Markup } from "./markup.ts";

/** Limits the nesting, because a schema may refer to itself. Deeper levels are only in the document itself. */
const maxLevels = 12;

export function schemaView(schema: JsonSchema, level = 0): Markup {
  if (level > maxLevels) return html`<p>See the document.</p>`;
  const ref = schema["$ref"];
  if (typeof ref === "string") return html`<p>${refView(ref)}</p>`;
  const inner = [
    ...members(schema, level),
    ...items(schema, level),
    ...alternatives(schema, level),
    ...together(schema, level),
  ];
  return level === 0
    ? html`<p>${typeOf(schema)}</p>
        ${inner}`
    : html`${inner}`;
}

function refView(ref: string): Markup {
  const name = ref.slice(ref.lastIndexOf("/") + 1);
  return html`<a href="#schema-${name}">${name}</a>`;
}

function members(schema: JsonSchema, level: number): Markup[] {
  const properties = entries(schema["properties"]);
  if (properties.length === 0) return [];
  const { required } = schema;
  const rows = properties.map(([name, property]) => {
    const isRequired = Array.isArray(required) && required.includes(name);
    const { description } = property;
    return html`<li>
      <code class="name">${name}</code> <span class="type">${typeOf(property)}</span>
      ${isRequired ? html`<span class="required">required</span>` : undefined}
      ${typeof description === "string" ? html`<p>${inlineMarkup(description)}</p>` : undefined}
      ${schemaView(property, level + 1)}
    </li>`;
  });
  return [
    html`<ul class="members">
      ${rows}
    </ul>`,
  ];
}

function items(schema: JsonSchema, level: number): Markup[] {
  const item = schemaOf(schema["items"]);
  return item === undefined ? [] : [schemaView(item, level + 1)];
}

function alternatives(schema: JsonSchema, level: number): Markup[] {
  const list = [schema["anyOf"], schema["oneOf"]].flatMap(schemasOf);
  // Alternatives that only list required members are not shown.
  const shown = list.filter((one) => Object.keys(one).some((key) => key !== "required"));
  if (shown.length === 0) return [];
  const choices = shown.map((one) => {
    return html`<li>
      <details>
        <summary>${titleOf(one)}</summary>
        ${schemaView(one, level + 1)}
      </details>
    </li>`;
  });
  return [
    html`<p class="type">One of:</p>
      <ul class="choices">
        ${choices}
      </ul>`,
  ];
}

function together(schema: JsonSchema, level: number): Markup[] {
  return schemasOf(schema["allOf"]).map((one) => schemaView(one, level + 1));
}

function titleOf(schema: JsonSchema): Markup {
  const tool =
    constOf(schema, ["properties", "params", "properties", "tool", "const"]) ??
    constOf(schema, ["properties", "tool", "const"]);
  const method = constOf(schema, ["properties", "method", "const"]);
  const code = constOf(schema, ["properties", "error_code", "const"]);
  const name = tool ?? method ?? code;
  const { description } = schema;
  const text = typeof description === "string" ? description : undefined;
  const title = name === undefined ? undefined : html`<code>${name}</code> `;
  return html`${title}${text === undefined ? typeOf(schema) : inlineMarkup(text)}`;
}

function constOf(value: unknown, path: readonly string[]): string | undefined {
  let current = value;
  for (const key of path) current = schemaOf(current)?.[key];
  return typeof current === "string" ? current : undefined;
}

/** Returns a text such as `integer, 1 to 25, default 10`, `"a" or "b"` or `array of string`. */
export function typeOf(schema: JsonSchema): string {
  const words = [kindOf(schema), rangeOf(schema)].filter((word) => word !== "");
  const { pattern, format, default: fallback } = schema;
  if (typeof format === "string") words.push(format);
  if (typeof pattern === "string") words.push(`matching ${pattern}`);
  if (fallback !== undefined) words.push(`default ${JSON.stringify(fallback)}`);
  return words.join(", ");
}

function kindOf(schema: JsonSchema): string {
  const { $ref, type, const: only, enum: several } = schema;
  if (typeof $ref === "string") return $ref.slice($ref.lastIndexOf("/") + 1);
  if (only !== undefined) return JSON.stringify(only);
  if (Array.isArray(several)) return several.map((one) => JSON.stringify(one)).join(" or ");
  const item = schemaOf(schema["items"]);
  if (type === "array" && item !== undefined) return `array of ${kindOf(item)}`;
  if (Array.isArray(type)) return type.join(" or ");
  if (typeof type === "string") return type;
  const choices = [schema["anyOf"], schema["oneOf"]].flatMap(schemasOf).map(kindOf);
  return [...new Set(choices)].join(" or ") || "any";
}

const ranges = [
  ["minimum", "maximum", ""],
  ["minLength", "maxLength", " characters"],
  ["minItems", "maxItems", " items"],
] as const;

function rangeOf(schema: JsonSchema): string {
  return ranges
    .map(([least, most, unit]) => {
      const [from, to] = [schema[least], schema[most]];
      if (typeof from !== "number") return typeof to === "number" ? `at most ${to}${unit}` : "";
      return typeof to === "number" ? `${from} to ${to}${unit}` : `at least ${from}${unit}`;
    })
    .filter((range) => range !== "")
    .join(", ");
}

function entries(value: unknown): [string, JsonSchema][] {
  const record = schemaOf(value);
  if (record === undefined) return [];
  return Object.entries(record).map(([name, one]) => [name, schemaOf(one) ?? {}]);
}

function schemasOf(value: unknown): JsonSchema[] {
  return Array.isArray(value) ? value.map((one: unknown) => schemaOf(one) ?? {}) : [];
}

function schemaOf(value: unknown): JsonSchema | undefined {
  return isObject(value) ? value : undefined;
}
