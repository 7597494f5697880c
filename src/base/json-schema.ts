/** Validates JSON Schemas. Instances of ajv that compile such a schema afterwards need no `validateSchema`. */
import { metaSchema } from "./meta-schemas.ts";
import type { JsonSchema } from "../contract/json.ts";

export const draft2020 = "https://json-schema.org/draft/2020-12/schema";
export const draft7 = "http://json-schema.org/draft-07/schema";

/** Throws an Error if `schema` is not a JSON Schema of one of the drafts. Without `$schema` it must be of the first. */
export function checkJsonSchema(schema: JsonSchema, drafts: readonly [string, ...string[]]): void {
  const { $schema = drafts[0] } = schema;
  if (typeof $schema !== "string") throw new Error("$schema must be a string");
  const url = $schema.replace(/#$/, "");
  const isValid = drafts.includes(url) ? metaSchema(url) : undefined;
  if (isValid === undefined) throw new Error(`no schema with key or ref "${$schema}"`);
  if (isValid(schema) === true) return;
  const reasons = (isValid.errors ?? []).map(({ instancePath, message = "is invalid" }) => {
    return `data${instancePath} ${message}`;
  });
  throw new Error(`schema is invalid: ${reasons.join(", ")}`);
}
