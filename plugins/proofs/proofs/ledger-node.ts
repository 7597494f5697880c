import type { LedgerAnswer, LedgerNode } from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { NodeError, nodeRefusal, type HeadNode } from "./node.ts";

/** Maximum size of an answer: a change of the authorities with 10,000 headers before it. */
export const maxAnswerBytes = 8 * 1_048_576;

/** `call`: see `LedgerNode.call`. It may also answer at once. */
export function headNode({
  name,
  call,
}: {
  readonly name: string;
  readonly call: (method: string, params: string) => ReturnType<LedgerNode["call"]> | LedgerAnswer;
}): HeadNode {
  return {
    name,
    async call(method, params) {
      const answer = await call(method, JSON.stringify(params));
      if (answer.kind === "failed") throw new NodeError("the node does not answer");
      if (answer.bytes.length > maxAnswerBytes)
        throw new NodeError(`the answer to ${method} is too large`);
      const read = parseOrUndefined(answer.bytes.toString());
      if (answer.kind === "error")
        throw nodeRefusal(method, isObject(read) ? read["code"] : undefined);
      return read;
    },
  };
}
