/** Input schemas of tools: compiled once, their violations told by path and reason. */
import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import type { JsonSchema } from "../services.ts";

export interface Violation {
  /** JSON Pointer into the input; empty for the input itself. */
  readonly path: string;
  readonly reason: string;
}

/** The violations of an input, at most 20; empty when it is valid. */
export type InputCheck = (input: unknown) => readonly Violation[];

const mostViolations = 20;
const ajv = new Ajv2020({ allErrors: true, strict: true, validateFormats: false });

/** The check, or what is wrong with the schema. */
export function compileSchema(schema: JsonSchema): InputCheck | string {
  if (schema["type"] !== "object") return 'has an input schema whose root is not `type: "object"`';
  for (const word of ["oneOf", "anyOf", "allOf", "$ref"]) {
    // Agents' own validators read the properties of the root and little else.
    if (word in schema) return `has an input schema with \`${word}\` at its root`;
  }
  try {
    const validate = ajv.compile(schema);
    return (input) => (validate(input) ? [] : violations(validate.errors ?? []));
  } catch (error) {
    return `has an invalid input schema: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function violations(errors: readonly ErrorObject[]): Violation[] {
  return errors.slice(0, mostViolations).map(({ instancePath, message, keyword, params }) => ({
    path: instancePath,
    reason:
      keyword === "additionalProperties"
        ? `unknown property ${JSON.stringify(params["additionalProperty"])}`
        : (message ?? keyword),
  }));
}
