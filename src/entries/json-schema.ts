/** Checking and compiling JSON Schemas, and the schemas of JSON-RPC, exported as `sluice-gateway/internal/json-schema`. */
export { checkJsonSchema, draft2020 } from "../base/json-schema.ts";
export type { CompilerOptions, SchemaError, Validator } from "../contract/validator.ts";
export { schemaCompiler } from "../base/schema-compiler.ts";
export { jsonRpcFailure, jsonRpcId, jsonRpcResult } from "../base/shared-schemas.ts";
