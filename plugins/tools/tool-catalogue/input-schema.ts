/** Compiles the input schemas of tools, and reports violations by path and reason. */
import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { checkJsonSchema, draft2020 } from "sluice-gateway/json-schema";
import type { JsonSchema } from "sluice-gateway/plugin";

export interface Violation {
  /** JSON Pointer into the input; empty for the input itself. */
  readonly path: string;
  readonly reason: string;
}

/** Returns the violations of an input, at most 20. Empty if it is valid. */
export type InputCheck = (input: unknown) => readonly Violation[];

/** Returns the check for a schema, or a text with the problem of the schema. */
export type SchemaCompiler = (schema: JsonSchema) => InputCheck | string;

const maxViolations = 20;
/**
 * Maximum number of values in an input whose violations are all reported. Only the first violation of a larger input is
 * reported, because the client controls how many there are.
 */
const maxThoroughValues = 1000;
/** Maximum length of member names in violations, because they come from the client. */
const maxTextChars = 128;

const options: Options = {
  strict: true,
  strictRequired: false,
  validateFormats: false,
  logger: false,
  // `checkJsonSchema` does it.
  validateSchema: false,
};

/**
 * Keyword with the header in which agents of revision 2026-07-28 repeat the argument (without `Mcp-Param-`), so that
 * proxies can route by it: a token of RFC 9110.
 */
const headerKeyword = {
  keyword: "x-mcp-header",
  schemaType: "string",
  metaSchema: { type: "string", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
} as const;

/**
 * Creates a compiler for one catalogue. It is not shared, because ajv keeps every schema and refuses an `$id` that it
 * has already seen.
 */
export function createSchemaCompiler(): SchemaCompiler {
  const quick = new Ajv2020(options);
  const thorough = new Ajv2020({ ...options, allErrors: true });
  // ajv resolves a reference to an `$anchor`, but does not list it among the keywords that it knows.
  for (const ajv of [quick, thorough]) ajv.addVocabulary([headerKeyword, "$anchor"]);
  return (schema) => {
    if (schema["type"] !== "object")
      return 'has an input schema whose root is not `type: "object"`';
    if (schema["$async"] === true) return "has an asynchronous input schema";
    for (const word of ["oneOf", "anyOf", "allOf", "$ref"]) {
      // Validators in agents read little more than the properties of the root.
      if (word in schema) return `has an input schema with \`${word}\` at its root`;
    }
    try {
      checkJsonSchema(schema, [draft2020]);
      const validate = quick.compile(schema);
      let validateAll: ValidateFunction | undefined;
      return (input) => {
        if (validate(input)) return [];
        const errors = validate.errors ?? [];
        if (!hasAtMost(maxThoroughValues, input)) return violations(errors);
        // Compiled for the first wrong input, because many tools never receive one.
        validateAll ??= thorough.compile(schema);
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

/** Returns true if the input has at most `max` values, including nested ones. Does not visit more than that. */
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
