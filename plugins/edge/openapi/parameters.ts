import type { JsonSchema, Operation } from "sluice-gateway/plugin";
import { isObject } from "sluice-gateway/internal/toolkit";
import { schemaWithExample } from "./components.ts";

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: JsonSchema;
  readonly example?: unknown;
}

/** OpenAPI 3.1, "Parameter Object": these headers are ignored there, because other parts of the document have them. */
const reserved = new Set(["accept", "content-type", "authorization"]);

/** A later part replaces parameters with the same name. */
export function parametersOf(path: string, parts: readonly Operation[]): readonly Parameter[] {
  const found = new Map<string, Parameter>();
  const add = (parameter: Parameter): void => {
    found.set(`${parameter.in} ${parameter.name}`, parameter);
  };
  for (const name of namesIn(path)) add(pathParameter(name, { type: "string" }));
  if (path.endsWith("/*")) {
    const description = "Rest of the path, which may hold slashes.";
    add(pathParameter("rest", { description, type: "string" }));
  }
  for (const part of parts) {
    for (const [name, schema] of propertiesOf(part.path)) {
      if (found.has(`path ${name}`)) add(pathParameter(name, schema));
    }
  }
  for (const { query } of parts) {
    for (const [name, schema] of propertiesOf(query)) {
      add({ name, in: "query", required: isRequired(query, name), ...described(name, schema) });
    }
  }
  for (const { headers } of parts) {
    for (const [name, schema] of propertiesOf(headers)) {
      if (reserved.has(name)) continue;
      add({ name, in: "header", required: isRequired(headers, name), ...described(name, schema) });
    }
  }
  return [...found.values()];
}

function namesIn(path: string): string[] {
  return [...path.matchAll(/\{([^}]+)\}/g)].map(([, name = ""]) => name);
}

function pathParameter(name: string, schema: JsonSchema): Parameter {
  return { name, in: "path", required: true, ...described(name, schema) };
}

function described(
  name: string,
  schema: JsonSchema,
): Pick<Parameter, "description" | "schema" | "example"> {
  const { description, ...rest } = schema;
  return {
    ...(typeof description === "string" && { description }),
    ...schemaWithExample(rest, { name, isWhole: true }),
  };
}

function propertiesOf(schema: JsonSchema | undefined): [string, JsonSchema][] {
  const properties = schema?.["properties"];
  if (!isObject(properties)) return [];
  return Object.entries(properties).map(([name, property]) => [
    name,
    // `true` and `false` are also schemas.
    isObject(property) ? property : {},
  ]);
}

function isRequired(schema: JsonSchema | undefined, name: string): boolean {
  const required = schema?.["required"];
  return Array.isArray(required) && required.includes(name);
}
