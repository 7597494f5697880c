/**
 * Combines the model's deltas before they are encrypted. One frame per token would reveal the length and the time of
 * each token to an observer of the network. The first text is sent immediately, because it determines the perceived
 * latency.
 */
import type { Clock } from "sluice-gateway/plugin";
import { utf8 } from "../protocol/encoding.ts";
import type { JsonObject } from "../protocol/strict-json.ts";

export interface DeltaBatch {
  /** Adds a delta in OpenAI's format. */
  add(delta: JsonObject): void;
  /** Sends the queued text, even after `hold`. */
  flush(): void;
  /** Stops sending until `release` is called. */
  hold(): void;
  release(): void;
  /** Discards the queued text. */
  close(): void;
}

/** Maximum duration of a batch, and its maximum number of tokens (confidential-stream.md, 1.2). */
const batchMs = 40;
const batchTokens = 8;
/**
 * Maximum number of characters of a text in one frame. Two texts of this length fit into a frame, even if each
 * character is escaped to six.
 */
const pieceChars = 4_096;

/** `send`: sends the plaintext of one chunk. */
export function createDeltaBatch(clock: Clock, send: (data: Uint8Array) => void): DeltaBatch {
  let role: unknown;
  let reasoning = "";
  let content = "";
  let tokens = 0;
  let hasSentText = false;
  let isHeld = false;
  let timer: Disposable | undefined;

  const sendDelta = (delta: object): void => send(utf8(JSON.stringify(delta)));

  function flush(): void {
    timer?.[Symbol.dispose]();
    timer = undefined;
    hasSentText ||= tokens > 0;
    tokens = 0;
    const reasoningPieces = pieces(reasoning);
    const contentPieces = pieces(content);
    const head = role === undefined ? {} : { role };
    role = undefined;
    reasoning = content = "";
    const [firstReasoning, firstContent] = [reasoningPieces.shift(), contentPieces.shift()];
    const delta = {
      ...head,
      ...(firstReasoning !== undefined && { reasoning_content: firstReasoning }),
      // All of the reasoning is sent before the content.
      ...(firstContent !== undefined && reasoningPieces.length === 0 && { content: firstContent }),
    };
    if (Object.keys(delta).length > 0) sendDelta(delta);
    for (const more of reasoningPieces) sendDelta({ reasoning_content: more });
    if (firstContent !== undefined && reasoningPieces.length > 0)
      sendDelta({ content: firstContent });
    for (const more of contentPieces) sendDelta({ content: more });
  }

  function flushWhenFull(): void {
    if (isHeld) return;
    if (tokens >= (hasSentText ? batchTokens : 1)) return flush();
    timer ??= clock.after(batchMs, () => {
      timer = undefined;
      if (!isHeld) flush();
    });
  }

  return {
    flush,
    add(delta) {
      const { role: named, content: said, reasoning_content: thought, ...more } = delta;
      if (Object.values(more).some((value) => value !== null)) {
        // A delta with other members, such as tool_calls, cannot be combined. It is sent alone, in order.
        flush();
        return sendDelta(delta);
      }
      role ??= typeof named === "string" ? named : undefined;
      const hasReasoning = typeof thought === "string" && thought !== "";
      const hasContent = typeof said === "string" && said !== "";
      if (hasReasoning && content !== "") flush();
      if (hasReasoning) reasoning += thought;
      if (hasContent) content += said;
      if (hasReasoning || hasContent) tokens++;
      if (role !== undefined || tokens > 0) flushWhenFull();
    },
    hold() {
      isHeld = true;
    },
    release() {
      isHeld = false;
      flush();
    },
    close() {
      timer?.[Symbol.dispose]();
      role = undefined;
      reasoning = content = "";
    },
  };
}

/** Splits a text into pieces. An empty text has none. Surrogate pairs are not split. */
function pieces(text: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(at + pieceChars, text.length);
    const last = text.charCodeAt(end - 1);
    if (end < text.length && last >= 0xd800 && last < 0xdc00) end--;
    found.push(text.slice(at, end));
    at = end;
  }
  return found;
}
