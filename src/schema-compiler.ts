/** Compiles JSON Schemas to functions that validate values. The build compiles those of the shipped plugins. */
import { hash } from "node:crypto";
import { createRequire } from "node:module";
import type * as Ajv from "ajv/dist/2020.js";
import type { Ajv2020, Options, ValidateFunction } from "ajv/dist/2020.js";
import { compiledSchemas, type Formats } from "./compiled-schemas.ts";
import type { JsonSchema } from "./contract/json.ts";
import { checkJsonSchema } from "./json-schema.ts";
import { codeSuffix, packageFile } from "./package-files.ts";

export interface CompilerOptions extends Options {
  /** The drafts that a schema may have. The first one applies if it names none. Without them, it is not checked. */
  readonly drafts?: readonly [string, ...string[]];
  readonly formatTests?: Readonly<Record<string, (text: string) => boolean>>;
  /** Keywords that have no effect. */
  readonly keywords?: Ajv.Vocabulary;
}

/** Returns the validator of a schema. Throws an Error if the schema is not valid. */
export type SchemaCompiler = <T = unknown>(schema: JsonSchema) => ValidateFunction<T>;

/** The schemas that a compiler has compiled. */
export interface CompilerRecord {
  readonly options: CompilerOptions;
  readonly schemas: Map<string, JsonSchema>;
}

const require = createRequire(import.meta.url);
/** The build puts ajv into a file of its own (.ci/bundle.ts). */
const source = codeSuffix === ".ts" ? "ajv/dist/2020.js" : packageFile("src/chunks/ajv.cjs");
let records: Map<string, CompilerRecord> | undefined;

/** From now on, records which compiler compiles which schemas. The build compiles these schemas. */
export function recordSchemas(): ReadonlyMap<string, CompilerRecord> {
  records ??= new Map();
  return records;
}

/**
 * Creates a compiler. `name`: unique in the gateway, and always used with the same options. ajv is large, so it is only
 * loaded for a schema that the build has not compiled.
 */
export function schemaCompiler(name: string, options: CompilerOptions): SchemaCompiler {
  const compiled = compiledSchemas(name, formatsOf(options));
  let ajv: Ajv2020 | undefined;
  return <T>(schema: JsonSchema) => {
    const key = schemaKey(schema);
    const known = compiled?.[key];
    // The schema describes what the caller expects.
    if (known !== undefined) return known as ValidateFunction<T>;
    if (records !== undefined) record(records, name, options, key, schema);
    if (options.drafts !== undefined) checkJsonSchema(schema, options.drafts);
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

/** `more`: options that are used instead. */
export function createAjv(compiler: CompilerOptions, more: Options = {}): Ajv2020 {
  const { drafts: _, formatTests: __, keywords = [], ...options } = compiler;
  // `require` returns any. These are the package's own types.
  const { Ajv2020: Compiler } = require(source) as typeof Ajv;
  const ajv = new Compiler({ logger: false, validateSchema: false, ...options, ...more });
  for (const [name, format] of Object.entries(formatsOf(compiler))) ajv.addFormat(name, format);
  ajv.addVocabulary(keywords);
  return ajv;
}

function formatsOf({ formatTests = {} }: CompilerOptions): Formats {
  return Object.fromEntries(
    Object.entries(formatTests).map(([name, validate]) => [name, { type: "string", validate }]),
  );
}

function schemaKey(schema: JsonSchema): string {
  return hash("sha1", JSON.stringify(schema), "base64url");
}
