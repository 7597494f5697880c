/** JSON Schemas (draft 2020-12) compiled once by ajv, and their verdicts as violations a client can act on. */
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import type { JsonSchema } from "sluice-gateway/plugin";

/** What is wrong at one place: a JSON Pointer and a reason. Neither repeats a value of the request. */
export interface Violation {
  readonly path: string;
  readonly reason: string;
}

/** What a value does not meet; undefined when it meets everything. `thorough`: all violations, not only the first. */
export type Check = (value: unknown, thorough: boolean) => readonly Violation[] | undefined;

/** Enough to repair a request by; more would let a small request ask for a large answer. */
export const maxViolations = 20;
/** Member names come from the client. */
const maxPathLength = 256;

/** Where the request keeps a value, and whether its text may count as numbers, booleans and one-element arrays. */
export interface Part {
  readonly pointer: "/body" | "/query" | "/headers";
  readonly coerce: boolean;
}

function ajvOptions(part: Part): Options {
  return {
    // A misspelt keyword is a fault, not a rule that never applies; how types combine is the author's affair.
    strict: true,
    strictTypes: false,
    strictRequired: false,
    strictTuples: false,
    // "array": one `?tag=a` is a list where the schema wants one.
    coerceTypes: part.coerce ? "array" : false,
    logger: false,
  };
}

/**
 * Compiles a schema. Throws where ajv does: `schemaFaults` has said so before.
 * Collecting every violation is a second function: on a large body that one's work is the client's to multiply.
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

/** An unexpected member is itself the place; ajv points at the object around it. */
function namedMember(error: ErrorObject): string {
  const name: unknown = error.params["additionalProperty"] ?? error.params["unevaluatedProperty"];
  return typeof name === "string" ? `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}` : "";
}

/** Why a schema cannot be used, each with the JSON Pointer into the plugin's options; empty when it can. */
export function schemaFaults(
  schema: JsonSchema,
  part: Part,
): { readonly pointer: string; readonly message: string }[] {
  if (schema["$async"] === true) {
    // ajv would answer with a promise, which a hook would take for "valid".
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
    // ajv throws for what only compiling finds: an unknown keyword or format, a reference to nowhere, a bad pattern.
    const message = error instanceof Error ? error.message : String(error);
    return [{ pointer: part.pointer, message: `not a usable JSON Schema: ${message}` }];
  }
}
