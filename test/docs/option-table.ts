/** Renders the options of a plugin, which are a JSON Schema, as a table. */
import { isObject } from "../../src/base/is-object.ts";

type Schema = Readonly<Record<string, unknown>>;

export function optionTable(options: Schema | undefined): string[] {
  const properties = Object.entries(objectAt(options, "properties"));
  if (properties.length === 0) return [];
  const required = options?.["required"];
  const isRequired = (name: string): boolean => Array.isArray(required) && required.includes(name);
  return [
    "",
    "| option | type | default | meaning |",
    "| --- | --- | --- | --- |",
    ...properties.map(([name, value]) => {
      const schema = isObject(value) ? value : {};
      const cells = [
        code(name),
        typeOf(schema),
        isRequired(name) ? "required" : defaultOf(schema),
        escape(textOf(schema["description"])),
      ];
      return `| ${cells.join(" | ")} |`;
    }),
  ];
}

/** A missing default may be described, for example because it depends on other options. */
function defaultOf(schema: Schema): string {
  return "default" in schema ? code(JSON.stringify(schema["default"])) : "";
}

function typeOf(schema: Schema): string {
  const { enum: values, type, items, minimum, maximum } = schema;
  if (Array.isArray(values)) return values.map((value) => code(JSON.stringify(value))).join(", ");
  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(choices)) {
    const all = choices.map((choice) => (isObject(choice) ? typeOf(choice) : "any"));
    return [...new Set(all)].join(" or ");
  }
  if (Array.isArray(type)) return type.join(" or ");
  if (type === "array") return isObject(items) ? `array of ${typeOf(items)}` : "array";
  if (typeof type !== "string") return "any";
  const from = minimum === undefined ? "" : ` from ${textOf(minimum)}`;
  const to = maximum === undefined ? "" : ` to ${textOf(maximum)}`;
  return `${type}${from}${to}`;
}

function objectAt(schema: Schema | undefined, member: string): Schema {
  const value = schema?.[member];
  return isObject(value) ? value : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

function code(text: string): string {
  return "`" + text.replaceAll("|", "\\|") + "`";
}

/** Placeholders such as {name} and <name> are text in a table. */
export function escape(text: string): string {
  return text.replace(/[|*<]/g, (sign) => `\\${sign}`);
}
