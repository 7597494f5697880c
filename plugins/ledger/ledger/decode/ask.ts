/** Asks a ledger for the little that decoding needs beside the block itself. */
import { parseJson } from "../../../../src/parse-json.ts";
import type { Ledger } from "../../../../src/services/ledger.ts";

/**
 * `none`: the node says that it has no such thing (`null`, or an error): an unknown block, or state that was pruned.
 */
export type Asked =
  | { readonly kind: "value"; readonly bytes: Buffer }
  | { readonly kind: "none"; readonly error: boolean }
  | { readonly kind: "failed"; readonly reason: "unreachable" | "aborted" };

/** `params`: the text of a JSON array. Never rejects. */
export async function ask(
  ledger: Ledger,
  method: string,
  params: string,
  signal?: AbortSignal,
): Promise<Asked> {
  const answer = await ledger.call(
    ledger.internal(method),
    Buffer.from(params),
    signal === undefined ? {} : { signal },
  );
  if (answer.kind === "error") return { kind: "none", error: true };
  if (answer.kind === "failed") {
    return { kind: "failed", reason: answer.reason === "aborted" ? "aborted" : "unreachable" };
  }
  const { bytes } = answer;
  const isNull = bytes.length === 4 && bytes.toString("latin1") === "null";
  return isNull ? { kind: "none", error: false } : { kind: "value", bytes };
}

/** The value of a JSON text; undefined when it is not JSON. Only for small answers. */
export function parsed(bytes: Buffer): unknown {
  try {
    return parseJson(bytes.toString());
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A hex string of 32 bytes. */
export function isHash(value: unknown): value is string {
  return typeof value === "string" && /^0x[\da-f]{64}$/i.test(value);
}
