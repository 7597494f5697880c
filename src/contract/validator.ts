/** Functions that validate values against a JSON Schema, the errors that they report, and how they are compiled. */
import type { JsonSchema } from "./json.ts";

/** An error in the form of ajv. */
export interface SchemaError {
  /** JSON Pointer into the value. */
  readonly instancePath: string;
  /** Keyword of the schema that the value violates, such as `required`. */
  readonly keyword: string;
  /** Path of the keyword in the schema, such as `#/properties/id/type`. */
  readonly schemaPath: string;
  /** The value that the keyword expected, such as `{ missingProperty: "id" }`. */
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
  /** Name of the member, for errors of member names. */
  readonly propertyName?: string;
  /** The schema with the keyword, if the compiler is `verbose`. */
  readonly parentSchema?: Readonly<Record<string, unknown>>;
  /** The value that violates the keyword, if the compiler is `verbose`. */
  readonly data?: unknown;
}

export interface Validator<T = unknown> {
  (value: unknown): value is T;
  /** The errors of the last value. Undefined or null if it was valid. */
  errors?: readonly SchemaError[] | null;
}

/** The options of a compiler. Members without a comment are options of ajv. */
export interface CompilerOptions {
  /** The drafts that a schema may have. The first one applies if it names none. Without them, it is not checked. */
  readonly drafts?: readonly [string, ...string[]];
  /** Returns whether a text has the format, by the name of the format. */
  readonly formatTests?: Readonly<Record<string, (text: string) => boolean>>;
  /** Keywords that have no effect. */
  readonly keywords?: readonly (
    | string
    | { readonly keyword: string; readonly schemaType: "string"; readonly metaSchema: JsonSchema }
  )[];
  readonly strict?: boolean;
  readonly strictTypes?: boolean;
  readonly strictTuples?: boolean;
  readonly strictRequired?: boolean;
  readonly allowUnionTypes?: boolean;
  readonly allErrors?: boolean;
  readonly verbose?: boolean;
  readonly messages?: boolean;
  readonly useDefaults?: boolean;
  readonly validateFormats?: boolean;
  readonly code?: { readonly optimize: boolean };
}
