/** JSON as services speak of it: schemas, and JSON-RPC bodies read by `host.readJsonRpc` (src/stream/json). */

/** A JSON Schema (draft 2020-12 subset that ajv reads). */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** `id` and `params` are JSON text as sent; `params` is an array or object, or empty where there are none. */
export type JsonRpcItem =
  | {
      readonly kind: "call";
      readonly id: string;
      readonly method: string;
      readonly params: string;
    }
  /** A valid request without an id: nobody waits for an answer. */
  | { readonly kind: "notification"; readonly method: string; readonly params: string }
  /** Not a request. `id` is the one to answer with: its own where it can be told, else `null`. */
  | { readonly kind: "invalid"; readonly id: string };

export type JsonRpcBody =
  | { readonly kind: "single"; readonly item: JsonRpcItem }
  | { readonly kind: "batch"; readonly items: readonly JsonRpcItem[] }
  /** JSON, but neither an object nor an array of 1 to `maxItems`. */
  | { readonly kind: "invalid" }
  /** Not JSON, not UTF-8, or nested deeper than 128. */
  | { readonly kind: "malformed" };
