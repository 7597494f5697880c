/** The deltas of one answer, between the connection and the one reader. */
import type { Delta } from "./answer.ts";

export interface DeltaQueue extends AsyncIterable<Delta> {
  push(delta: Delta, bytes: number): void;
  /** Ends the iteration after the queued deltas. */
  end(): void;
  /** Discards the queued deltas and throws `error` to the reader. */
  fail(error: unknown): void;
  unreadBytes(): number;
}

interface QueuedDelta {
  readonly delta: Delta;
  readonly bytes: number;
}

/** `onAbort`: called when the reader leaves the loop before the end. */
export function createDeltaQueue(onAbort: () => void): DeltaQueue {
  const queue: QueuedDelta[] = [];
  let queuedBytes = 0;
  let hasEnded = false;
  let isAborted = false;
  let failure: { readonly error: unknown } | undefined;
  let wake: (() => void) | undefined;

  function wakeReader(): void {
    wake?.();
    wake = undefined;
  }

  async function next(): Promise<IteratorResult<Delta, undefined>> {
    for (;;) {
      if (failure !== undefined) {
        const { error } = failure;
        failure = undefined;
        throw error;
      }
      const first = isAborted ? undefined : queue.shift();
      if (first !== undefined) {
        queuedBytes -= first.bytes;
        return { done: false, value: first.delta };
      }
      if (hasEnded || isAborted) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }

  function abort(): Promise<IteratorResult<Delta, undefined>> {
    if (!hasEnded && !isAborted) onAbort();
    isAborted = true;
    clear();
    wakeReader();
    return Promise.resolve({ done: true, value: undefined });
  }

  function clear(): void {
    queue.length = 0;
    queuedBytes = 0;
  }

  return {
    push(delta, bytes) {
      if (hasEnded || isAborted) return;
      queue.push({ delta, bytes });
      queuedBytes += bytes;
      wakeReader();
    },
    end() {
      hasEnded = true;
      wakeReader();
    },
    fail(error) {
      if (hasEnded) return;
      hasEnded = true;
      failure = { error };
      clear();
      wakeReader();
    },
    unreadBytes: () => queuedBytes,
    [Symbol.asyncIterator]: () => ({ next, return: abort }),
  };
}
