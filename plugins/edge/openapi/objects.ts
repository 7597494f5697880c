/** Objects of an OpenAPI document that several of its parts hold (OpenAPI 3.1). */
import type { JsonSchema } from "sluice-gateway/plugin";

/** A T, or a reference to one below `components`. */
export type Ref<T> = T | { readonly $ref: string };

/** `example` fits the schema; it is missing if none could be made. */
export interface HeaderObject {
  readonly description: string;
  readonly schema: JsonSchema;
  readonly example?: unknown;
}

export interface MediaType {
  readonly schema: JsonSchema;
  readonly example?: unknown;
}

export interface ResponseObject {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Ref<HeaderObject>>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}
