import { isObject } from "../base/is-object.ts";
import type { JsonSchema, Service } from "../plugin.ts";

type Members = Readonly<Record<string, JsonSchema>>;

/** The parts of a service that decide what pipeline.yaml may contain. */
export type SectionOwner = Pick<Service<never>, "name" | "sections" | "extends" | "checkSections">;

export function sectionsOf({ sections = {}, extends: extended = {} }: SectionOwner): string[] {
  return [...Object.keys(sections), ...Object.keys(extended)];
}

export function withSections(gateway: Members, services: readonly SectionOwner[]): Members {
  const all: Record<string, JsonSchema> = { ...gateway };
  for (const { sections = {} } of services) Object.assign(all, sections);
  for (const { extends: extended = {} } of services) {
    for (const [section, members] of Object.entries(extended)) {
      const schema = all[section];
      if (schema !== undefined) all[section] = extendEntries(schema, members);
    }
  }
  return all;
}

/** Adds members to the schema of the entries of a section. Both lists of an `enum` apply. */
function extendEntries(section: JsonSchema, members: Members): JsonSchema {
  const entry = schemaIn(section, "additionalProperties");
  const properties: Record<string, unknown> = { ...schemaIn(entry, "properties") };
  for (const [name, member] of Object.entries(members)) {
    const known = schemaIn(properties, name);
    const values = [listIn(known, "enum"), listIn(member, "enum")].flat();
    properties[name] = { ...known, ...member, ...(values.length > 0 && { enum: values }) };
  }
  return { ...section, additionalProperties: { ...entry, properties } };
}

function schemaIn(schema: JsonSchema, key: string): JsonSchema {
  const found = schema[key];
  return isObject(found) ? { ...found } : {};
}

function listIn(schema: JsonSchema, key: string): readonly unknown[] {
  const found = schema[key];
  return Array.isArray(found) ? found : [];
}
