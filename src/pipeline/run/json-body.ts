import { isUtf8 } from "node:buffer";
import { jsonExcess } from "../../base/json-bounds.ts";
import { parseBoundedJson } from "../../base/parse-json.ts";

export type Json = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/** `isBounded`: the body is known to be within the bounds of src/base/json-bounds.ts. */
export function readJson(body: Buffer | undefined, isBounded: boolean): Json {
  // Decoding bytes that are not UTF-8 would replace characters without anyone noticing.
  if (body === undefined || !isUtf8(body)) return { ok: false };
  try {
    const text = body.toString("utf8");
    if (!isBounded && jsonExcess(text) !== undefined) return { ok: false };
    return { ok: true, value: parseBoundedJson(text) };
  } catch {
    return { ok: false };
  }
}
