/** JSON types of the contract: schemas, and JSON-RPC bodies as `readJsonRpc` reads them (src/http/json). */

/** A JSON Schema (the subset of draft 2020-12 that ajv supports). */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** `id` and `params` are JSON text as the client sent it. `params` is an array or an object, or empty if missing. */
export type JsonRpcItem =
  | {
      readonly kind: "call";
      readonly id: string;
      readonly method: string;
      readonly params: string;
    }
  /** A valid request without an id: the client expects no answer. */
  | { readonly kind: "notification"; readonly method: string; readonly params: string }
  /** Not a request. `id` is the id of the error: that of the item if it could be read, else `null`. */
  | { readonly kind: "invalid"; readonly id: string };

export type JsonRpcBody =
  | { readonly kind: "single"; readonly item: JsonRpcItem }
  | { readonly kind: "batch"; readonly items: readonly JsonRpcItem[] }
  /** JSON, but neither an object nor an array of 1 to `maxItems` items. */
  | { readonly kind: "invalid" }
  /** Not JSON, not UTF-8, or nested more than 128 levels deep. */
  | { readonly kind: "malformed" };
