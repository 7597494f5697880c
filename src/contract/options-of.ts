/** The type of the options that a JSON Schema describes (types only). */
import type { JsonSchema } from "./json.ts";

/** A schema of options whose type is known, because it was written in the manifest or with `as const`. */
export type OptionsSchema = JsonSchema & {
  readonly type: "object";
  readonly properties: Readonly<Record<string, JsonSchema>>;
};

/** Names of the members that are always present: the required ones, and those with a default. */
type Present<S extends OptionsSchema> =
  | {
      [K in keyof S["properties"]]: S["properties"][K] extends { default: unknown } ? K : never;
    }[keyof S["properties"]]
  | (S extends { required: readonly (infer K)[] } ? K : never);

/**
 * The options of a plugin whose schema is `S`. A member is optional unless it is required or has a default. The type of
 * a member whose schema has neither `type`, `enum` nor `const` is unknown.
 */
export type OptionsOf<S extends OptionsSchema> = {
  readonly [K in keyof S["properties"] as K extends Present<S> ? K : never]: ValueOf<
    S["properties"][K]
  >;
} & {
  readonly [K in keyof S["properties"] as K extends Present<S> ? never : K]?: ValueOf<
    S["properties"][K]
  >;
};

type ValueOf<S> = S extends { readonly const: infer V }
  ? V
  : S extends { readonly enum: readonly (infer V)[] }
    ? V
    : S extends { readonly type: infer T }
      ? ValueOfType<T extends readonly (infer Each)[] ? Each : T, S>
      : unknown;

interface Scalars {
  readonly string: string;
  readonly integer: number;
  readonly number: number;
  readonly boolean: boolean;
  readonly null: null;
}

/** Distributes over the types of a schema that allows several. */
type ValueOfType<T, S> = T extends keyof Scalars
  ? Scalars[T]
  : T extends "array"
    ? readonly (S extends { readonly items: infer Items } ? ValueOf<Items> : unknown)[]
    : T extends "object"
      ? S extends OptionsSchema
        ? OptionsOf<S>
        : Readonly<
            Record<
              string,
              S extends { readonly additionalProperties: infer V } ? ValueOf<V> : unknown
            >
          >
      : unknown;
