/** Functions that validate values against a JSON Schema, and the errors that they report. */

/** An error in the form of ajv. */
export interface SchemaError {
  /** JSON Pointer into the value. */
  readonly instancePath: string;
  /** Keyword of the schema that the value violates, such as `required`. */
  readonly keyword: string;
  /** Path of the keyword in the schema, such as `#/properties/id/type`. */
  readonly schemaPath: string;
  /** What the keyword expected, such as `{ missingProperty: "id" }`. */
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
