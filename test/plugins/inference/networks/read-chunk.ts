import { emptyChunk, readChunk } from "../../../../plugins/inference/networks/chunk.ts";

export interface ReadChunk {
  readonly choice: string | undefined;
  readonly hasContent: boolean;
  /** The choice, with `reasoning` renamed if the reader asks for that. */
  readonly renamed: string | undefined;
  readonly finishReason: string | undefined;
  readonly usage: string | undefined;
  readonly isError: boolean;
}

/** All chunks share one object, in which nothing of an earlier chunk may remain. */
const chunk = emptyChunk();

/** Reads a chunk that has other bytes before and after it. Undefined if it is not a chunk. */
export function readAlone(text: string): ReadChunk | undefined {
  const bytes = Buffer.from(`,}"${text}"]}`);
  const end = bytes.length - 3;
  if (!readChunk(bytes, 3, end, chunk)) return undefined;
  const { choiceStart, choiceEnd, usageStart, usageEnd, reasoningAt } = chunk;
  const choice = choiceStart < 0 ? undefined : bytes.toString("utf8", choiceStart, choiceEnd);
  const before = bytes.toString("utf8", choiceStart, Math.max(choiceStart, reasoningAt));
  return {
    choice,
    hasContent: chunk.hasContent,
    renamed:
      reasoningAt < 0
        ? choice
        : `${before}_content${bytes.toString("utf8", reasoningAt, choiceEnd)}`,
    finishReason: chunk.finishReason,
    usage: usageStart < 0 ? undefined : bytes.toString("utf8", usageStart, usageEnd),
    isError: chunk.isError,
  };
}
