import type { LedgerCalls } from "sluice-gateway/services";

/** `none`: the node answered `null` or an error, because the block is unknown or its state was pruned. */
export type NodeReply =
  | { readonly kind: "value"; readonly bytes: Buffer }
  | { readonly kind: "none"; readonly error: boolean }
  | { readonly kind: "failed"; readonly reason: "unreachable" | "aborted" };

/** `params`: text of a JSON array. Never rejects. */
export async function callNode(
  ledger: LedgerCalls,
  method: string,
  params: string,
  signal?: AbortSignal,
): Promise<NodeReply> {
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

export function isHash(value: unknown): value is string {
  return typeof value === "string" && /^0x[\da-f]{64}$/i.test(value);
}
