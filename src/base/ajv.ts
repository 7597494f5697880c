/** Creates instances of ajv. ajv is large, so it is only loaded when the first one is created. */
import { createRequire } from "node:module";
import type * as Ajv from "ajv/dist/2020.js";
import type { Ajv2020, Options } from "ajv/dist/2020.js";
import type { Formats } from "./compiled-schemas.ts";
import type { CompilerOptions } from "../contract/validator.ts";
import { codeSuffix, packageFile } from "./package-files.ts";

const require = createRequire(import.meta.url);
/** The build puts ajv into a file of its own (.ci/bundle.ts). */
const source = codeSuffix === ".ts" ? "ajv/dist/2020.js" : packageFile("src/chunks/ajv.cjs");

export function createAjv(compiler: CompilerOptions, more: Options = {}): Ajv2020 {
  const { drafts: _, formatTests: __, keywords = [], ...options } = compiler;
  // `require` returns any. These are the package's own types.
  const { Ajv2020: Compiler } = require(source) as typeof Ajv;
  const ajv = new Compiler({ logger: false, validateSchema: false, ...options, ...more });
  for (const [name, format] of Object.entries(formatsOf(compiler))) ajv.addFormat(name, format);
  ajv.addVocabulary([...keywords]);
  return ajv;
}

export function formatsOf({ formatTests = {} }: CompilerOptions): Formats {
  return Object.fromEntries(
    Object.entries(formatTests).map(([name, validate]) => [name, { type: "string", validate }]),
  );
}
