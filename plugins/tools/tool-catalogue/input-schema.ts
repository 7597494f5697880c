import {
  draft2020,
  schemaCompiler,
  type CompilerOptions,
  type SchemaError,
  type Validator,
} from "sluice-gateway/internal/json-schema";
import type { JsonSchema } from "sluice-gateway/plugin";
import { messageOf } from "sluice-gateway/internal/toolkit";

export interface Violation {
  /** JSON Pointer into the input; empty for the input itself. */
  readonly path: string;
  readonly reason: string;
}

/** Returns at most 20 violations. */
export type InputCheck = (input: unknown) => readonly Violation[];

/** Returns the check for a schema, or a text with the problem of the schema. */
export type InputCompiler = (schema: JsonSchema, what?: "input" | "output") => InputCheck | string;

const maxViolations = 20;
/** Only the first violation of a larger input is reported, because the client controls how many there are. */
const maxThoroughValues = 1000;
/** Limits member names in violations, because they come from the client. */
const maxTextChars = 128;

/**
 * Names the header in which agents of revision 2026-07-28 repeat the argument (without `Mcp-Param-`), so that proxies
 * can route by it: a token of RFC 9110.
 */
const headerKeyword = {
  keyword: "x-mcp-header",
  schemaType: "string",
  metaSchema: { type: "string", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
} as const;

const options: CompilerOptions = {
  drafts: [draft2020],
  strict: true,
  strictRequired: false,
  validateFormats: false,
  // ajv resolves a reference to an `$anchor`, but does not list it among the keywords that it knows.
  keywords: [headerKeyword, "$anchor"],
};
const quick = schemaCompiler("tool input", options);
const thorough = schemaCompiler("tool input, all errors", { ...options, allErrors: true });

export const compileSchema: InputCompiler = (schema, what = "input") => {
  const problem = rootProblem(schema, what);
  if (problem !== undefined) return problem;
  if (schema["$async"] === true) return `has an asynchronous ${what} schema`;
  for (const word of ["oneOf", "anyOf", "allOf", "$ref"]) {
    // Validators in agents support little more than the properties of the root.
    if (word in schema) return `has an ${what} schema with \`${word}\` at its root`;
  }
  try {
    const validate = quick(schema);
    let validateAll: Validator | undefined;
    return (input) => {
      if (validate(input)) return [];
      const errors = validate.errors ?? [];
      if (!hasAtMost(maxThoroughValues, input)) return violations(errors);
      // Compiled at the first invalid input, because many tools never receive one.
      validateAll ??= thorough(schema);
      validateAll(input);
      return violations(validateAll.errors ?? errors);
    };
  } catch (error) {
    return `has an invalid ${what} schema: ${messageOf(error)}`;
  }
};

export function rootProblem(schema: JsonSchema, what: string): string | undefined {
  if (schema["type"] === "object") return undefined;
  return `has an ${what} schema whose root is not \`type: "object"\``;
}

function violations(errors: readonly SchemaError[]): Violation[] {
  return errors.slice(0, maxViolations).map(({ instancePath, message, keyword, params }) => ({
    path: instancePath.slice(0, maxTextChars),
    reason:
      keyword === "additionalProperties"
        ? `unknown property ${JSON.stringify(String(params["additionalProperty"]).slice(0, maxTextChars))}`
        : (message ?? keyword),
  }));
}

/** Nested values count, too. Does not visit more than `max` values. */
function hasAtMost(max: number, input: unknown): boolean {
  const waiting: unknown[] = [input];
  for (let count = 0; waiting.length > 0; count++) {
    if (count + waiting.length > max) return false;
    const value = waiting.pop();
    if (typeof value !== "object" || value === null) continue;
    const members: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (members.length > max) return false;
    for (const member of members) waiting.push(member);
  }
  return true;
}
