import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import type { JsonSchema } from "sluice-gateway/plugin";
import { messageOf } from "sluice-gateway/internal/toolkit";

/** Neither the JSON Pointer nor the reason contains a value of the request. */
export interface Violation {
  readonly path: string;
  readonly reason: string;
}

/** Returns undefined if there are no violations. `thorough`: true for all, false for only the first. */
export type Check = (value: unknown, thorough: boolean) => readonly Violation[] | undefined;

/** Limits the answer, so that a small request cannot cause a large one. */
export const maxViolations = 20;
/** Limits the path, because member names come from the client. */
const maxPathLength = 256;

/** `coerce`: true to convert text to numbers, booleans and one-element arrays. */
export interface Part {
  readonly pointer: "/body" | "/query" | "/headers";
  readonly coerce: boolean;
}

function ajvOptions(part: Part): Options {
  return {
    // An unknown keyword is a fault. Combinations of types are not checked.
    strict: true,
    strictTypes: false,
    strictRequired: false,
    strictTuples: false,
    // "array": a single `?tag=a` becomes a list if the schema requires one.
    coerceTypes: part.coerce ? "array" : false,
    logger: false,
  };
}

/**
 * Throws the errors of ajv, which `schemaFaults` reports earlier. `all` is not used for large bodies, because a client
 * could use them to multiply its work.
 */
export function compileSchema(schema: JsonSchema, part: Part): Check {
  const first = new Ajv2020(ajvOptions(part)).compile(schema);
  const all = new Ajv2020({ ...ajvOptions(part), allErrors: true }).compile(schema);
  return (value, thorough) => verdict(thorough ? all : first, value, part.pointer);
}

function verdict(
  validate: ValidateFunction,
  value: unknown,
  pointer: string,
): readonly Violation[] | undefined {
  if (validate(value)) return undefined;
  const errors = validate.errors ?? [];
  return errors.slice(0, maxViolations).map((error) => violation(error, pointer));
}

function violation(error: ErrorObject, pointer: string): Violation {
  const path = pointer + error.instancePath + namedMember(error);
  return { path: path.slice(0, maxPathLength), reason: error.message ?? "is not allowed" };
}

/** ajv reports only the object that contains the unexpected member. */
function namedMember(error: ErrorObject): string {
  const name: unknown = error.params["additionalProperty"] ?? error.params["unevaluatedProperty"];
  return typeof name === "string" ? `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}` : "";
}

export function schemaFaults(
  schema: JsonSchema,
  part: Part,
): { readonly pointer: string; readonly message: string }[] {
  if (schema["$async"] === true) {
    // ajv would return a promise, which a hook would treat as "valid".
    return [
      { pointer: `${part.pointer}/$async`, message: "asynchronous schemas are not supported" },
    ];
  }
  const ajv = new Ajv2020({ ...ajvOptions(part), allErrors: true });
  try {
    if (ajv.validateSchema(schema) !== true) {
      return (ajv.errors ?? []).map(({ instancePath, message }) => ({
        pointer: part.pointer + instancePath,
        message: `not a JSON Schema: ${message ?? "invalid"}`,
      }));
    }
    ajv.compile(schema);
    return [];
  } catch (error) {
    // ajv throws if compiling finds a fault: an unknown keyword or format, a missing reference, an invalid pattern.
    const message = messageOf(error);
    return [{ pointer: part.pointer, message: `not a usable JSON Schema: ${message}` }];
  }
}
