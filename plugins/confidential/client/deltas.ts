/** The deltas of one answer, between the connection that brings them and the one reader who takes them. */
import type { Delta } from "./answer.ts";

export interface Deltas extends AsyncIterable<Delta> {
  push(delta: Delta, bytes: number): void;
  end(): void;
  /** The reader gets `error` next; what it has not read is dropped. */
  fail(error: unknown): void;
  /** Bytes that wait for the reader. */
  waitingBytes(): number;
}

interface Waiting {
  readonly delta: Delta;
  readonly bytes: number;
}

/** `onLeave`: the reader went before the end. */
export function createDeltas(onLeave: () => void): Deltas {
  const queue: Waiting[] = [];
  let queuedBytes = 0;
  let isOver = false;
  let hasLeft = false;
  let failure: { readonly error: unknown } | undefined;
  let wake: (() => void) | undefined;

  function stir(): void {
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
      const first = hasLeft ? undefined : queue.shift();
      if (first !== undefined) {
        queuedBytes -= first.bytes;
        return { done: false, value: first.delta };
      }
      if (isOver || hasLeft) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (wake = resolve));
    }
  }

  function leave(): Promise<IteratorResult<Delta, undefined>> {
    if (!isOver && !hasLeft) onLeave();
    hasLeft = true;
    clear();
    stir();
    return Promise.resolve({ done: true, value: undefined });
  }

  function clear(): void {
    queue.length = 0;
    queuedBytes = 0;
  }

  return {
    push(delta, bytes) {
      if (isOver || hasLeft) return;
      queue.push({ delta, bytes });
      queuedBytes += bytes;
      stir();
    },
    end() {
      isOver = true;
      stir();
    },
    fail(error) {
      if (isOver) return;
      isOver = true;
      failure = { error };
      clear();
      stir();
    },
    waitingBytes: () => queuedBytes,
    [Symbol.asyncIterator]: () => ({ next, return: leave }),
  };
}
