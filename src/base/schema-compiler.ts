/** Compiles JSON Schemas to functions that validate values. The build compiles those of the shipped plugins. */
import { hash } from "node:crypto";
import { createAjv, formatsOf } from "./ajv.ts";
import { compiledSchemas } from "./compiled-schemas.ts";
import type { JsonSchema } from "../contract/json.ts";
import type { CompilerOptions, Validator } from "../contract/validator.ts";
import { checkJsonSchema } from "./json-schema.ts";

/**
 * Number of schemas that one instance of ajv compiles. An instance keeps about 4 KB of every schema for as long as one
 * of its validators is in use, so without a limit every reload of a plugin would increase the memory permanently.
 */
const maxSchemas = 64;

/** Throws an Error if the schema is not valid. */
export type SchemaCompiler = <T = unknown>(schema: JsonSchema) => Validator<T>;

export interface CompilerRecord {
  readonly options: CompilerOptions;
  readonly schemas: Map<string, JsonSchema>;
}

let records: Map<string, CompilerRecord> | undefined;

/** From now on, records which compiler compiles which schemas, for the build. */
export function recordSchemas(): ReadonlyMap<string, CompilerRecord> {
  records ??= new Map();
  return records;
}

/**
 * `name`: unique in the gateway, and always used with the same options. ajv is large, so it is only loaded for a schema
 * that the build has not compiled.
 */
export function schemaCompiler(name: string, options: CompilerOptions): SchemaCompiler {
  const compiled = compiledSchemas(name, formatsOf(options));
  let ajv: ReturnType<typeof createAjv> | undefined;
  let count = 0;
  return <T>(schema: JsonSchema) => {
    const key = schemaKey(schema);
    const known = compiled?.[key];
    // The schema describes what the caller expects.
    if (known !== undefined) return known as Validator<T>;
    if (records !== undefined) record(records, name, options, key, schema);
    if (options.drafts !== undefined) checkJsonSchema(schema, options.drafts);
    if (count % maxSchemas === 0) ajv = undefined;
    count++;
    ajv ??= createAjv(options);
    try {
      return ajv.compile<T>(schema);
    } finally {
      // ajv would keep every schema until the process ends, and refuse another one with the same `$id`.
      ajv.removeSchema(schema);
    }
  };
}

function record(
  all: Map<string, CompilerRecord>,
  name: string,
  options: CompilerOptions,
  key: string,
  schema: JsonSchema,
): void {
  const compiler = all.get(name) ?? { options, schemas: new Map<string, JsonSchema>() };
  all.set(name, compiler);
  compiler.schemas.set(key, schema);
}

function schemaKey(schema: JsonSchema): string {
  return hash("sha1", JSON.stringify(schema), "base64url");
}
