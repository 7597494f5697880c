/** States how an answer is proved: in the response header, and in the member `proof` of an answer. */
import type { RpcAnswer } from "sluice-gateway/services";
import { hexOf } from "../proofs/scale.ts";

export type CallProof =
  | { readonly state: "none"; readonly reason: string }
  | {
      readonly state: "finalized" | "included";
      /** Hash of the block. */
      readonly block: string;
      /** Undefined if the hash of the block alone proves the answer. */
      readonly root: string | undefined;
      /** The nodes of the trie and the headers in SCALE with which a client can check the answer. */
      readonly nodes?: readonly Uint8Array[];
      readonly headers?: readonly Uint8Array[];
    };

/** Returns the value of the header `X-Sluice-Proof`. */
export function proofText(proof: CallProof): string {
  if (proof.state === "none") return `none; reason=${proof.reason}`;
  const { state, block, root } = proof;
  return `${state}; block=${block}${root === undefined ? "" : `; root=${root}`}`;
}

/** Adds the member `proof` to a response. */
export function withProof(answer: RpcAnswer, proof: CallProof): RpcAnswer {
  if (answer === undefined) return undefined;
  const isNone = proof.state === "none";
  const nodes = isNone ? undefined : proof.nodes?.map(hexOf);
  const headers = isNone ? undefined : proof.headers?.map(hexOf);
  const text = JSON.stringify({ ...proof, nodes, headers });
  const end = `,"proof":${text}}`;
  if (typeof answer === "string") return answer.slice(0, -1) + end;
  const pieces = answer instanceof Uint8Array ? [answer] : answer;
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return [...pieces.slice(0, -1), last, Buffer.from(end)];
}
