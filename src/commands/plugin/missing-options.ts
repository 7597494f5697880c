import { valueAt } from "../../config/edit-yaml.ts";
import { isObject } from "../../base/is-object.ts";
import type { Plugin } from "../../plugin.ts";

type WithOptions = Pick<Plugin, "kind" | "name" | "options">;

/** Required options that a place of the plugin does not set, or all of them if it has no place. */
export function missingOptions(text: string, { name, options }: WithOptions): string[] {
  const required: unknown = options?.["required"];
  if (!Array.isArray(required)) return [];
  const properties = options?.["properties"];
  // An option with a default is never missing.
  const hasDefault = (option: string): boolean =>
    isObject(properties) && isObject(properties[option]) && "default" in properties[option];
  const places = placesOf(text, name);
  return required.filter(
    (option): option is string =>
      typeof option === "string" &&
      !hasDefault(option) &&
      (places.length === 0 ||
        places.some((given) => !isObject(given) || !Object.hasOwn(given, option))),
  );
}

/** Returns the rest of the sentence "To use it, …". */
export function remainingStep(text: string, plugin: WithOptions): string | undefined {
  const { kind, name } = plugin;
  const missing = missingOptions(text, plugin);
  const isPlaced = placesOf(text, name).length > 0;
  if (isPlaced && missing.length === 0) return undefined;
  const required = ` (required: ${missing.join(", ")})`;
  if (isPlaced) return `write its options under its name in pipeline.yaml${required}`;
  const section = `a section \`${name}:\` with its options`;
  if (kind === "service" && missing.length > 0) return `add ${section} to pipeline.yaml${required}`;
  const place = {
    step: "write its name into a list or into `run:` of a route; --list LIST does that",
    surface: "write its name at `to:` of a route; --path PATH adds a route",
    tools: "write its name under `tools:`",
    service: `add a plugin that uses it, or ${section}`,
  }[kind];
  return missing.length === 0 ? place : `${place}. Write its options under its name${required}`;
}

/** Returns the options outside of `plugins:`. An item is undefined where the plugin has no options. */
function placesOf(text: string, plugin: string): unknown[] {
  const { plugins: _, ...others } = Object(valueAt(text, [])) as Record<string, unknown>;
  return placesIn(others, plugin);
}

/** The name of the plugin may be an item, a value or a key. */
export function placesIn(value: unknown, plugin: string): unknown[] {
  if (Array.isArray(value)) return value.flatMap((item) => placesIn(item, plugin));
  if (!isObject(value)) return value === plugin ? [undefined] : [];
  return Object.entries(value).flatMap(([key, member]) => [
    ...(key === plugin ? [member] : []),
    ...placesIn(member, plugin),
  ]);
}
