/** The default of an option is in its schema, where the tables of the documentation and editors find it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isObject } from "../../src/base/is-object.ts";
import { loadShipped } from "../../src/pipeline/load/load.ts";

/** Returns the descriptions that state a value as the default, which only the schema may do. */
function stated(at: string, schema: unknown): string[] {
  if (!isObject(schema)) return [];
  const { description = "", properties, items, additionalProperties } = schema;
  const own = /\(default\b/i.test(String(description)) ? [`${at}: ${String(description)}`] : [];
  const members = Object.entries(isObject(properties) ? properties : {});
  return [
    ...own,
    ...members.flatMap(([name, each]) => stated(`${at}.${name}`, each)),
    ...stated(`${at}[]`, items),
    ...stated(`${at}.*`, additionalProperties),
    ...["anyOf", "oneOf", "allOf"].flatMap((keyword) => {
      const choices = schema[keyword];
      return Array.isArray(choices) ? choices.flatMap((each) => stated(at, each)) : [];
    }),
  ];
}

test("descriptions leave constant defaults to the schema", async () => {
  const { plugins } = await loadShipped();
  assert.deepEqual(stated("x", { description: "Size (default 5)." }), ["x: Size (default 5)."]);
  const found = [...plugins.values()].flatMap((plugin) => [
    ...stated(plugin.name, plugin.options),
    ...("sections" in plugin ? stated(plugin.name, { properties: plugin.sections }) : []),
  ]);
  assert.deepEqual(found, []);
});
