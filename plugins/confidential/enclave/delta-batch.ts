/**
 * Combines the model's deltas before they are encrypted. One frame per token would reveal the length and the time of
 * each token to an observer of the network. The first text is sent immediately, because it determines the perceived
 * latency.
 */
import type { Clock } from "sluice-gateway/plugin";
import { utf8 } from "../protocol/encoding.ts";
import type { JsonObject } from "../protocol/strict-json.ts";
import { maxFrameDataBytes } from "../protocol/limits.ts";
import { partsOf, PendingDelta, splitDelta } from "./delta-parts.ts";

export interface DeltaBatch {
  /**
   * `delta`: in OpenAI's format. `logprobs`: entries of the list `logprobs.content` of its choice, which are sent as a
   * member of the delta.
   */
  add(delta: JsonObject, logprobs?: readonly unknown[]): void;
  /** Sends the queued text, even after `hold`. */
  flush(): void;
  hold(): void;
  release(): void;
  close(): void;
}

/** Maximum duration of a batch, and its maximum number of tokens (confidential-stream.md, 1.2). */
const batchMs = 40;
const batchTokens = 8;

export function createDeltaBatch(clock: Clock, send: (data: Uint8Array) => void): DeltaBatch {
  const pending = new PendingDelta();
  let tokens = 0;
  let hasSentText = false;
  let isHeld = false;
  let timer: Disposable | undefined;

  const sendDelta = (delta: object): void => send(utf8(JSON.stringify(delta)));

  function sendAlone(delta: JsonObject): void {
    const data = utf8(JSON.stringify(delta));
    if (data.length <= maxFrameDataBytes) return send(data);
    for (const piece of splitDelta(delta)) sendDelta(piece);
  }

  function flush(): void {
    timer?.[Symbol.dispose]();
    timer = undefined;
    hasSentText ||= tokens > 0;
    tokens = 0;
    for (const delta of pending.take()) sendDelta(delta);
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
    add(delta, logprobs = []) {
      const parts = partsOf(delta);
      if (parts === undefined) {
        // The delta is sent alone, after the pending parts.
        pending.addLogprobs(logprobs);
        flush();
        return sendAlone(delta);
      }
      const { role, reasoning, content, calls } = parts;
      if (pending.mustPrecede(parts)) flush();
      pending.add(parts);
      pending.addLogprobs(logprobs);
      const isToken = reasoning !== "" || content !== "" || calls.length > 0;
      if (isToken) tokens++;
      if (isToken || role !== undefined || logprobs.length > 0) flushWhenFull();
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
      pending.clear();
    },
  };
}
