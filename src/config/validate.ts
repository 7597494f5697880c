/**
 * Validates a located tree and describes faults for a reader of the file. Repairs what it can, so that one mistake is
 * one fault: it converts values from the environment, and reads a misspelled key as the one that was probably meant.
 */
import { isContainer, isObject } from "../base/is-object.ts";
import type { CompilerOptions, SchemaError, Validator } from "../contract/validator.ts";
import { pointerKeys } from "../base/json-pointer.ts";
import { draft2020, draft7 } from "../base/json-schema.ts";
import type { JsonSchema } from "../plugin.ts";
import { schemaCompiler, type SchemaCompiler } from "../base/schema-compiler.ts";
import type { Fault, Position } from "./fault.ts";
import { formats } from "./formats.ts";
import { find, plainValue, type Located } from "./located.ts";
import { nearest } from "./nearest.ts";
import { describeError, relevantErrors } from "./validate-errors.ts";

export interface Validated {
  readonly faults: readonly Fault[];
  /** The plain value with defaults filled in, without the parts that have faults. */
  readonly value: unknown;
}

const options: CompilerOptions = {
  // Schema builders often still write draft 7 in `$schema`. The keywords that options use are the same in both drafts.
  drafts: [draft2020, draft7],
  formatTests: Object.fromEntries(
    Object.entries(formats).map(([name, { test }]) => [name, test] as const),
  ),
  keywords: ["removed"],
  useDefaults: true,
  strict: true,
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allowUnionTypes: true,
  // Most of these functions run once, which takes less time than optimizing them.
  code: { optimize: false },
};
/**
 * Stops at the first error, which has no message, so its code is small. The build also removes the errors that
 * `convert` does not read. Throws an Error if the schema is invalid.
 */
const quick = keeping(schemaCompiler("config", { ...options, messages: false }));
const thorough = keeping(
  schemaCompiler("config, all errors", { ...options, allErrors: true, verbose: true }),
);

function keeping(compile: SchemaCompiler): (schema: JsonSchema) => Validator {
  const compiled = new WeakMap<JsonSchema, Validator>();
  return (schema) => {
    const validator = compiled.get(schema) ?? compile(schema);
    compiled.set(schema, validator);
    return validator;
  };
}

/** More than any file needs. Each round repairs at least one fault. */
const maxRounds = 100;

/**
 * Changes `node` in place if it repairs something. `label`: the subtree in messages (`rate-limit`, empty for the whole
 * file). `own`: the position of the subtree.
 */
export function validate(
  node: Located,
  schema: JsonSchema,
  { label = "", own = node.at }: { label?: string; own?: Position } = {},
): Validated {
  const isValid = quick(schema);
  for (let round = 0; round < maxRounds; round++) {
    const value = plainValue(node);
    if (isValid(value)) return { faults: [], value };
    const [first] = isValid.errors ?? [];
    if (first === undefined || !convert(node, first)) break;
  }
  const validator = thorough(schema);
  const faults: Fault[] = [];
  for (let round = 0; ; round++) {
    const value = plainValue(node);
    if (validator(value) || validator.errors === null || validator.errors === undefined) {
      return { faults, value };
    }
    const errors = validator.errors;
    const repaired = round < maxRounds && errors.map((error) => repair(node, error, label, faults));
    if (repaired !== false && repaired.includes(true)) continue;
    const relevant = relevantErrors(errors).filter((error) => !isBroken(node, error));
    faults.push(...relevant.map((error) => describeError(node, error, label, own)));
    return { faults, value: prune(validator, value, errors) };
  }
}

function isBroken(node: Located, error: SchemaError): boolean {
  const part = find(node, error.instancePath);
  return part?.kind === "scalar" && part.broken;
}

function repair(node: Located, error: SchemaError, label: string, faults: Fault[]): boolean {
  if (error.keyword === "additionalProperties") return renameKey(node, error, label, faults);
  return convert(node, error);
}

function convert(node: Located, error: SchemaError): boolean {
  switch (error.keyword) {
    case "type":
      return retype(node, error, [error.params["type"]].flat());
    case "enum":
      return retype(node, error, typesOf(error.params["allowedValues"]));
    case "const":
      return retype(node, error, typesOf([error.params["allowedValue"]]));
    case "pattern":
      // The value may also be a number, as that of `server.threads`.
      return retype(node, error, [error.parentSchema?.["type"]].flat());
    default:
      return false;
  }
}

function typesOf(values: unknown): string[] {
  return Array.isArray(values) ? values.map((value: unknown) => typeof value) : [];
}

function retype(node: Located, error: SchemaError, wanted: readonly unknown[]): boolean {
  const part = find(node, error.instancePath);
  if (part?.kind !== "scalar" || part.broken) return false;
  if (typeof part.value === "number" && wanted.includes("string") && !wanted.includes("number")) {
    part.value = part.source;
    return true;
  }
  if (!part.expanded || typeof part.value !== "string") return false;
  const isNumber = wanted.includes("number") || wanted.includes("integer");
  if (isNumber && /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(part.value)) {
    part.value = Number(part.value);
    return true;
  }
  if (wanted.includes("boolean") && (part.value === "true" || part.value === "false")) {
    part.value = part.value === "true";
    return true;
  }
  return false;
}

function declaredKeys(error: SchemaError): string[] {
  const properties: unknown = error.parentSchema?.["properties"];
  return isObject(properties) ? Object.keys(properties) : [];
}

function renameKey(node: Located, error: SchemaError, label: string, faults: Fault[]): boolean {
  const part = find(node, error.instancePath);
  const key = String(error.params["additionalProperty"]);
  if (part?.kind !== "map") return false;
  const meant = nearest(
    key,
    declaredKeys(error).filter((name) => !part.entries.has(name)),
  );
  const entry = part.entries.get(key);
  if (meant === undefined || entry === undefined) return false;
  faults.push(unknownKey(node, error, label, meant));
  part.entries.delete(key);
  part.entries.set(meant, entry);
  return true;
}

function unknownKey(node: Located, error: SchemaError, label: string, meant: string): Fault {
  return { ...describeError(node, error, label, node.at), didYouMean: meant };
}

function prune(validator: Validator, value: unknown, errors: readonly SchemaError[]): unknown {
  if (errors.some((error) => error.instancePath === "" && error.keyword === "type")) return {};
  for (const error of errors) pruneOne(value, error);
  // Fills in the defaults of the parts that were removed.
  validator(value);
  return value;
}

function pruneOne(value: unknown, error: SchemaError): void {
  const keys = pointerKeys(error.instancePath);
  if (error.keyword === "required") return;
  if (error.keyword === "additionalProperties")
    keys.push(String(error.params["additionalProperty"]));
  const last = keys.pop();
  let parent: unknown = value;
  for (const key of keys) parent = isContainer(parent) ? parent[key] : undefined;
  if (last === undefined || !isContainer(parent)) return;
  if (Array.isArray(parent)) parent[last] = null;
  else delete parent[last];
}
