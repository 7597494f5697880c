/** Checking and compiling JSON Schemas, exported as `sluice-gateway/internal/json-schema`. */
export { checkJsonSchema, draft2020 } from "../base/json-schema.ts";
export type { CompilerOptions, SchemaError, Validator } from "../contract/validator.ts";
export { schemaCompiler } from "../base/schema-compiler.ts";
