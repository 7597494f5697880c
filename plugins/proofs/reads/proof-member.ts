/** States how an answer is proved: in the response header, and in the member `proof` of an answer. */
import type { RpcAnswer } from "sluice-gateway/services";
import { hexOf } from "../proofs/scale.ts";

export type CallProof =
  | { readonly state: "none"; readonly reason: string }
  | {
      readonly state: "finalized" | "included";
      readonly block: string;
      /** Undefined if the hash of the block alone proves the answer. */
      readonly root: string | undefined;
      /**
       * In SCALE: the nodes of the trie, the header of the block with those up to the justified block, and the
       * justification if the gateway still has it.
       */
      readonly nodes?: readonly Uint8Array[];
      readonly headers?: readonly Uint8Array[];
      readonly justification?: Uint8Array | undefined;
    };

/** The value of the header `X-Sluice-Proof`. */
export function proofText(proof: CallProof): string {
  if (proof.state === "none") return `none; reason=${proof.reason}`;
  const { state, block, root } = proof;
  return `${state}; block=${block}${root === undefined ? "" : `; root=${root}`}`;
}

export function withProof(answer: RpcAnswer, proof: CallProof): RpcAnswer {
  if (answer === undefined) return undefined;
  const text = JSON.stringify(proof, (_, value: unknown) =>
    value instanceof Uint8Array ? hexOf(value) : value,
  );
  const end = `,"proof":${text}}`;
  if (typeof answer === "string") return answer.slice(0, -1) + end;
  const pieces = answer instanceof Uint8Array ? [answer] : answer;
  const last = pieces.at(-1)?.subarray(0, -1) ?? Buffer.alloc(0);
  return [...pieces.slice(0, -1), last, Buffer.from(end)];
}
