/** Checking and compiling JSON Schemas, exported as `sluice-gateway/json-schema`. */
export { checkJsonSchema, draft2020 } from "../json-schema.ts";
export type { CompilerOptions, SchemaError, Validator } from "../contract/validator.ts";
export { schemaCompiler } from "../schema-compiler.ts";
