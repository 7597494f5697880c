/** Puts ajv's errors into words: what is wrong, at which key, and what would be right. */
import type { ErrorObject } from "ajv/dist/2020.js";
import type { SluiceCode } from "../errors.ts";
import { fault, type Fault, type Position } from "./fault.ts";
import { formats, isFormat } from "./formats.ts";
import { find, keyPositionOf, pointerKeys, positionOf, type Located } from "./located.ts";
import { nearest } from "./nearest.ts";

const branching = ["anyOf", "oneOf"];
/** These only say that errors listed beside them matter. */
const silent = ["if", "propertyNames"];

/**
 * Drops what only repeats another error. Of a choice (`anyOf`, `oneOf`) the errors of the one branch whose type fits
 * the value are kept, else only the choice's own error.
 */
export function relevantErrors(errors: readonly ErrorObject[]): ErrorObject[] {
  let left = errors.filter((error) => !silent.includes(error.keyword));
  for (const choice of errors.filter((error) => branching.includes(error.keyword))) {
    const inside = left.filter((error) => error.schemaPath.startsWith(`${choice.schemaPath}/`));
    const branches = Map.groupBy(inside, (error) => branchOf(choice, error));
    const fitting = [...branches.values()].filter(
      (branch) => !branch.some((error) => missesTheBranch(choice, error)),
    );
    const [only] = fitting;
    const kept = fitting.length === 1 && only !== undefined ? only : [choice];
    const dropped = new Set([...inside, choice]);
    left = [...left.filter((error) => !dropped.has(error)), ...kept];
  }
  return left;
}

function branchOf(choice: ErrorObject, error: ErrorObject): string {
  return error.schemaPath.slice(choice.schemaPath.length + 1).split("/")[0] ?? "";
}

function missesTheBranch(choice: ErrorObject, error: ErrorObject): boolean {
  return (
    error.instancePath === choice.instancePath && ["type", "const", "enum"].includes(error.keyword)
  );
}

/** `routes[2].path`, below the label of the subtree. */
function spell(pointer: string, label: string): string {
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
  error: ErrorObject,
  label: string,
  own: Position,
): Fault {
  const pointer = error.instancePath;
  const name = spell(pointer, label);
  if (error.keyword === "additionalProperties" || error.keyword === "unevaluatedProperties") {
    return describeUnknownKey(node, error, name, own);
  }
  if (error.keyword === "required" || error.keyword === "dependentRequired") {
    const missing = JSON.stringify(String(error.params["missingProperty"]));
    const at = keyPositionOf(node, pointer, own);
    return fault("SLUICE_KEY_MISSING", `${name} has no ${missing}`, { at });
  }
  if (error.propertyName !== undefined) {
    const { code, wanted } = describeWanted(error);
    const key = JSON.stringify(error.propertyName);
    const at = keyPositionOf(node, childPointer(pointer, error.propertyName), own);
    return fault(code, `the key ${key} of ${name} must be ${wanted}`, { at });
  }
  const at = positionOf(node, pointer, own);
  const { code, wanted } = describeWanted(error);
  const part = find(node, pointer);
  if (part?.kind === "scalar" && part.expanded) {
    return fault(code, `${name} must be ${wanted}, and the environment gives something else`, {
      at,
      remedy: "Correct what the environment variable holds.",
    });
  }
  const didYouMean = code === "SLUICE_VALUE_CHOICE" ? closestChoice(part, error) : undefined;
  const contrast = code === "SLUICE_VALUE_RANGE" && part?.kind !== "scalar" ? "" : not(part);
  return fault(code, `${name} must be ${wanted}${contrast}`, { at, didYouMean });
}

function describeUnknownKey(node: Located, error: ErrorObject, name: string, own: Position): Fault {
  const params: Readonly<Record<string, unknown>> = error.params;
  const key = String(params["additionalProperty"] ?? params["unevaluatedProperty"]);
  const pointer = childPointer(error.instancePath, key);
  const properties: unknown = error.parentSchema?.["properties"];
  const known =
    typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  return fault("SLUICE_KEY_UNKNOWN", `${name} has no key ${JSON.stringify(key)}`, {
    at: keyPositionOf(node, pointer, own),
    didYouMean: nearest(key, known),
    remedy:
      known.length === 0
        ? "Remove it: no keys are taken here."
        : `Correct or remove the key. Possible are ${known.join(", ")}.`,
  });
}

/** RFC 6901. */
function childPointer(pointer: string, key: string): string {
  return `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

const typeWords: Readonly<Record<string, string>> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a mapping",
  null: "nothing",
};

function describeWanted(error: ErrorObject): { code: SluiceCode; wanted: string } {
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
      const wanted = isFormat(format) ? formats[format].says : `of the form ${format}`;
      return { code: "SLUICE_VALUE_FORM", wanted };
    }
    case "pattern":
      return { code: "SLUICE_VALUE_FORM", wanted: `of the form ${String(params["pattern"])}` };
    case "minimum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `at least ${limit}` };
    case "maximum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `at most ${limit}` };
    case "exclusiveMinimum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `above ${limit}` };
    case "exclusiveMaximum":
      return { code: "SLUICE_VALUE_RANGE", wanted: `below ${limit}` };
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
    const kind = { minItems: "a list", minLength: "text", minProperties: "a mapping" }[keyword];
    if (kind !== undefined) return `${kind} that is not empty`;
  }
  const amount = keyword.startsWith("min") ? `at least ${limit}` : `at most ${limit}`;
  if (keyword === "uniqueItems") return "a list without repetitions";
  if (keyword.endsWith("Items")) return `a list of ${amount} items`;
  if (keyword.endsWith("Length")) return `text of ${amount} characters`;
  if (keyword.endsWith("Properties")) return `a mapping of ${amount} keys`;
  return "of another form (see the plugin's or the file's schema)";
}

function choices(error: ErrorObject): readonly unknown[] {
  const allowed: unknown = error.params["allowedValues"];
  return Array.isArray(allowed) ? allowed : [];
}

function closestChoice(part: Located | undefined, error: ErrorObject): string | undefined {
  if (part?.kind !== "scalar" || typeof part.value !== "string") return undefined;
  return nearest(part.value, choices(error).map(String));
}

function show(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** `, not "x"`; nothing for what is long or may hold credentials (a URL with `@`). */
function not(part: Located | undefined): string {
  if (part === undefined) return "";
  if (part.kind !== "scalar") return part.kind === "list" ? ", not a list" : ", not a mapping";
  if (part.value === null) return ", not nothing";
  const text = JSON.stringify(part.value);
  return text.length > 40 || text.includes("@") ? "" : `, not ${text}`;
}
