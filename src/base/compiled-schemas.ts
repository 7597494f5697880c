/**
 * The validators that the build has compiled. A checkout has none: the build replaces this module by the code that ajv
 * generates (.ci/compiled-schemas.ts), because compiling took a tenth of a start.
 */
import type { Validator } from "../contract/validator.ts";

/** Formats by name, in the form in which ajv keeps them. */
export type Formats = Readonly<
  Record<string, { readonly type: "string"; readonly validate: (text: string) => boolean }>
>;

/** Returns the validators of a compiler by the hash of their schema. Undefined if there are none. */
export function compiledSchemas(
  _compiler: string,
  _formats: Formats,
): Readonly<Record<string, Validator>> | undefined {
  return undefined;
}
