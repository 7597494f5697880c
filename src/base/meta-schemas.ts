/**
 * Compiles the schemas of JSON Schema itself, with which `src/base/json-schema.ts` validates other schemas. This is the most
 * expensive part of a start, so the build replaces this module by the code that ajv generates (.ci/bundle.ts).
 */
import { Ajv2020, type Options } from "ajv/dist/2020.js";
import draft7 from "ajv/dist/refs/json-schema-draft-07.json" with { type: "json" };

/** Returns true if the schema is valid, else false, and sets `errors`. */
export interface MetaSchema {
  (schema: unknown): unknown;
  errors?: readonly { readonly instancePath: string; readonly message?: string }[] | null;
}

export function ajvOfMetaSchemas(options: Options = {}): Ajv2020 {
  const ajv = new Ajv2020({ ...options, strict: false, validateFormats: false });
  ajv.addMetaSchema(draft7);
  return ajv;
}

let ajv: Ajv2020 | undefined;

/** Returns undefined if the URL is not that of a known draft. */
export function metaSchema(url: string): MetaSchema | undefined {
  ajv ??= ajvOfMetaSchemas();
  return ajv.getSchema(url);
}
