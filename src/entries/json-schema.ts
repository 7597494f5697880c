/** Checking and compiling JSON Schemas, exported as `sluice-gateway/json-schema`. */
export { checkJsonSchema, draft2020 } from "../json-schema.ts";
export { schemaCompiler, type CompilerOptions } from "../schema-compiler.ts";
