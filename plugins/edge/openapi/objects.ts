import type { JsonSchema } from "sluice-gateway/plugin";

export type Ref<T> = T | { readonly $ref: string };

/** `example`: value that fits the schema. Missing if none could be generated. */
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
