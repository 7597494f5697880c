/** Input schemas of tools: compiled once, their violations told by path and reason. */
import { Ajv2020, type ErrorObject, type Options } from "ajv/dist/2020.js";
import type { JsonSchema } from "../../../src/services/json.ts";

export interface Violation {
  /** JSON Pointer into the input; empty for the input itself. */
  readonly path: string;
  readonly reason: string;
}

/** The violations of an input, at most 20; empty when it is valid. */
export type InputCheck = (input: unknown) => readonly Violation[];

/** The check of a schema, or what is wrong with the schema. */
export type SchemaCompiler = (schema: JsonSchema) => InputCheck | string;

const maxViolations = 20;
/** An input of more values is told its first violation only: how many there are is the caller's to multiply. */
const maxThoroughValues = 1000;
/** Member names come from the caller. */
const maxTextChars = 128;

const options: Options = {
  strict: true,
  strictRequired: false,
  validateFormats: false,
  logger: false,
};

/**
 * Names the header in which agents of revision 2026-07-28 repeat the argument (without `Mcp-Param-`), so that what
 * stands between can route by it: a token of RFC 9110.
 */
const headerKeyword = {
  keyword: "x-mcp-header",
  schemaType: "string",
  metaSchema: { type: "string", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
} as const;

/** A compiler of its own for each catalogue: ajv keeps every schema it has seen, and refuses an `$id` seen twice. */
export function createSchemaCompiler(): SchemaCompiler {
  const quick = new Ajv2020(options);
  const thorough = new Ajv2020({ ...options, allErrors: true });
  // ajv follows a reference to an `$anchor`, but does not count it among the words it knows.
  for (const ajv of [quick, thorough]) ajv.addVocabulary([headerKeyword, "$anchor"]);
  return (schema) => {
    if (schema["type"] !== "object")
      return 'has an input schema whose root is not `type: "object"`';
    if (schema["$async"] === true) return "has an asynchronous input schema";
    for (const word of ["oneOf", "anyOf", "allOf", "$ref"]) {
      // Agents' own validators read the properties of the root and little else.
      if (word in schema) return `has an input schema with \`${word}\` at its root`;
    }
    try {
      const validate = quick.compile(schema);
      const validateAll = thorough.compile(schema);
      return (input) => {
        if (validate(input)) return [];
        const errors = validate.errors ?? [];
        if (!hasAtMost(maxThoroughValues, input)) return violations(errors);
        validateAll(input);
        return violations(validateAll.errors ?? errors);
      };
    } catch (error) {
      return `has an invalid input schema: ${error instanceof Error ? error.message : String(error)}`;
    }
  };
}

function violations(errors: readonly ErrorObject[]): Violation[] {
  return errors.slice(0, maxViolations).map(({ instancePath, message, keyword, params }) => ({
    path: instancePath.slice(0, maxTextChars),
    reason:
      keyword === "additionalProperties"
        ? `unknown property ${JSON.stringify(String(params["additionalProperty"]).slice(0, maxTextChars))}`
        : (message ?? keyword),
  }));
}

/** Whether there are at most so many values in it, nested ones included; looks at no more than that. */
function hasAtMost(most: number, input: unknown): boolean {
  const waiting: unknown[] = [input];
  for (let count = 0; waiting.length > 0; count++) {
    if (count + waiting.length > most) return false;
    const value = waiting.pop();
    if (typeof value !== "object" || value === null) continue;
    const members: unknown[] = Array.isArray(value) ? value : Object.values(value);
    if (members.length > most) return false;
    for (const member of members) waiting.push(member);
  }
  return true;
}
