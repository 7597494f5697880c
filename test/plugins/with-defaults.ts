import { isObject } from "../../src/base/is-object.ts";
import type { JsonSchema } from "../../src/plugin.ts";

/** Adds the defaults of the schema to options that are given. Defaults of nested options are not added. */
export function withDefaults<Options>(
  plugin: { readonly options?: JsonSchema; start(options: Options, ...rest: never[]): unknown },
  given: Partial<Options>,
): Options {
  const properties = plugin.options?.["properties"];
  const defaults = Object.entries(isObject(properties) ? properties : {}).flatMap(
    ([name, schema]) =>
      isObject(schema) && "default" in schema ? [[name, schema["default"]]] : [],
  );
  // The schema describes the type, so the defaults and what is given make it whole.
  return { ...Object.fromEntries(defaults), ...given } as Options;
}
