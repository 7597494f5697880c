/** Turns ajv's errors into faults that name the key, the expected value and the value found. */
import { isObject } from "../base/is-object.ts";
import type { SchemaError } from "../contract/validator.ts";
import type { SluiceCode } from "../base/errors.ts";
import { pointerKey, pointerKeys } from "../base/json-pointer.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import { formats, isFormat } from "./formats.ts";
import { find, keyPositionOf, positionOf, type Located } from "./located.ts";
import { nearest } from "./nearest.ts";

const branching = ["anyOf", "oneOf"];
/** Their own errors add nothing: ajv reports the actual errors separately. */
const silent = ["if", "propertyNames"];

/**
 * Drops errors that only repeat others. Of the branches of `anyOf` and `oneOf`, only one whose type alone matches the
 * value keeps its errors; otherwise only the error of the keyword itself is kept.
 */
export function relevantErrors(errors: readonly SchemaError[]): SchemaError[] {
  let left = errors.filter((error) => !silent.includes(error.keyword));
  for (const choice of errors.filter((error) => branching.includes(error.keyword))) {
    const inside = left.filter((error) => error.schemaPath.startsWith(`${choice.schemaPath}/`));
    const branches = Map.groupBy(inside, (error) => branchOf(choice, error));
    const fitting = [...branches.values()].filter(
      (branch) => !branch.some((error) => isOfOtherBranch(choice, error)),
    );
    const [only] = fitting;
    const kept = fitting.length === 1 && only !== undefined ? only : [choice];
    const dropped = new Set([...inside, choice]);
    left = [...left.filter((error) => !dropped.has(error)), ...kept];
  }
  return left;
}

function branchOf(choice: SchemaError, error: SchemaError): string {
  return error.schemaPath.slice(choice.schemaPath.length + 1).split("/")[0] ?? "";
}

function isOfOtherBranch(choice: SchemaError, error: SchemaError): boolean {
  return (
    error.instancePath === choice.instancePath && ["type", "const", "enum"].includes(error.keyword)
  );
}

/** Returns a path such as `routes[2].path`. */
function describePath(pointer: string, label: string): string {
  let text = label;
  for (const key of pointerKeys(pointer)) {
    if (/^\d+$/.test(key)) text += `[${key}]`;
    else if (/^[\w-]+$/.test(key)) text += text === "" ? key : `.${key}`;
    else text += `[${JSON.stringify(key)}]`;
  }
  return text === "" ? "the file" : text;
}

export function describeError(
  node: Located,
  error: SchemaError,
  label: string,
  own: Position,
): Fault {
  const pointer = error.instancePath;
  const name = describePath(pointer, label);
  if (error.keyword === "additionalProperties" || error.keyword === "unevaluatedProperties") {
    return describeUnknownKey(node, error, name, own);
  }
  if (error.keyword === "required" || error.keyword === "dependentRequired") {
    const missing = JSON.stringify(String(error.params["missingProperty"]));
    const at = keyPositionOf(node, pointer, own);
    return fault("SLUICE_KEY_MISSING", `missing key ${missing} in ${name}`, { at });
  }
  if (error.propertyName !== undefined) {
    const { code, wanted } = describeWanted(error);
    const key = JSON.stringify(error.propertyName);
    const at = keyPositionOf(node, `${pointer}/${pointerKey(error.propertyName)}`, own);
    return fault(code, `invalid key ${key} in ${name}: expected ${wanted}`, { at });
  }
  const at = positionOf(node, pointer, own);
  const { code, wanted } = describeWanted(error);
  const part = find(node, pointer);
  if (part?.kind === "scalar" && part.expanded) {
    const message = `${name}: expected ${wanted}, got another value from the environment`;
    return fault(code, message, { at, remedy: "Correct the value of the environment variable." });
  }
  const remedy = part?.kind === "scalar" ? removedRemedy(part.value, error) : undefined;
  const didYouMean =
    code === "SLUICE_VALUE_CHOICE" && remedy === undefined ? closestChoice(part, error) : undefined;
  const found = code === "SLUICE_VALUE_RANGE" && part?.kind !== "scalar" ? "" : describeFound(part);
  return fault(code, `${name}: expected ${wanted}${found}`, { at, didYouMean, remedy });
}

function removedRemedy(value: unknown, { parentSchema }: SchemaError): string | undefined {
  const removed: unknown = parentSchema?.["removed"];
  const remedy = isObject(removed) ? removed[String(value)] : undefined;
  return typeof remedy === "string" ? remedy : undefined;
}

function describeUnknownKey(node: Located, error: SchemaError, name: string, own: Position): Fault {
  const params: Readonly<Record<string, unknown>> = error.params;
  const key = String(params["additionalProperty"] ?? params["unevaluatedProperty"]);
  const pointer = `${error.instancePath}/${pointerKey(key)}`;
  const properties: unknown = error.parentSchema?.["properties"];
  const known = isObject(properties) ? Object.keys(properties) : [];
  return fault("SLUICE_KEY_UNKNOWN", `unknown key ${JSON.stringify(key)} in ${name}`, {
    at: keyPositionOf(node, pointer, own),
    didYouMean: nearest(key, known),
    remedy:
      known.length === 0
        ? "Remove the key: this mapping does not accept any keys."
        : `Correct or remove the key. Valid keys: ${known.join(", ")}.`,
  });
}

const typeWords: Readonly<Record<string, string>> = {
  string: "a string",
  integer: "an integer",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a mapping",
  null: "no value",
};

function describeWanted(error: SchemaError): { code: SluiceCode; wanted: string } {
  const params: Readonly<Record<string, unknown>> = error.params;
  const limit = String(params["limit"]);
  switch (error.keyword) {
    case "type": {
      const types = [params["type"]].flat().map((type) => typeWords[String(type)] ?? String(type));
      return { code: "SLUICE_VALUE_TYPE", wanted: types.join(" or ") };
    }
    case "enum":
      return {
        code: "SLUICE_VALUE_CHOICE",
        wanted: `one of ${choices(error).map(show).join(", ")}`,
      };
    case "const":
      return { code: "SLUICE_VALUE_CHOICE", wanted: show(params["allowedValue"]) };
    case "format": {
      const format = String(params["format"]);
      const wanted = isFormat(format)
        ? formats[format].expected
        : `a string in the format ${format}`;
      return { code: "SLUICE_VALUE_FORM", wanted };
    }
    case "pattern":
      return {
        code: "SLUICE_VALUE_FORM",
        wanted: `a string that matches ${String(params["pattern"])}`,
      };
    case "minimum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `at least ${limit}` };
    case "maximum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `at most ${limit}` };
    case "exclusiveMinimum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `more than ${limit}` };
    case "exclusiveMaximum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `less than ${limit}` };
    case "multipleOf":
      return {
        code: "SLUICE_VALUE_RANGE",
        wanted: `a multiple of ${String(params["multipleOf"])}`,
      };
    default:
      return { code: sizeCode(error.keyword), wanted: describeSize(error.keyword, limit) };
  }
}

function sizeCode(keyword: string): SluiceCode {
  return /^(min|max|unique)/.test(keyword) ? "SLUICE_VALUE_RANGE" : "SLUICE_VALUE_FORM";
}

function describeSize(keyword: string, limit: string): string {
  if (keyword.startsWith("min") && limit === "1") {
    const kind = { minItems: "list", minLength: "string", minProperties: "mapping" }[keyword];
    if (kind !== undefined) return `a non-empty ${kind}`;
  }
  const amount = keyword.startsWith("min") ? `at least ${limit}` : `at most ${limit}`;
  if (keyword === "uniqueItems") return "a list without duplicates";
  if (keyword.endsWith("Items")) return `a list with ${amount} items`;
  if (keyword.endsWith("Length")) return `a string with ${amount} characters`;
  if (keyword.endsWith("Properties")) return `a mapping with ${amount} keys`;
  return "a value that matches the schema of the plugin or of pipeline.yaml";
}

function choices(error: SchemaError): readonly unknown[] {
  const allowed: unknown = error.params["allowedValues"];
  return Array.isArray(allowed) ? allowed : [];
}

function closestChoice(part: Located | undefined, error: SchemaError): string | undefined {
  if (part?.kind !== "scalar" || typeof part.value !== "string") return undefined;
  return nearest(part.value, choices(error).map(String));
}

function show(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Returns nothing for a value that is long or may contain credentials (a URL with `@`). */
function describeFound(part: Located | undefined): string {
  if (part === undefined) return "";
  if (part.kind !== "scalar") return part.kind === "list" ? ", got a list" : ", got a mapping";
  if (part.value === null) return ", got no value";
  // JSON has no infinite numbers.
  const isInfinite = typeof part.value === "number" && !Number.isFinite(part.value);
  const text = isInfinite ? part.source : JSON.stringify(part.value);
  return text.length > 40 || text.includes("@") ? "" : `, got ${text}`;
}
