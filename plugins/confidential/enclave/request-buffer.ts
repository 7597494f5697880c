/** Collects the data of one request in a single buffer, however small its frames are. */
import type { HeldBytes } from "sluice-gateway/internal/http";

export interface RequestBuffer {
  /** Returns false, and adds nothing, if the memory is not available. */
  append(data: Uint8Array): boolean;
  /** The buffer is empty afterwards, but the memory stays accounted for until `release`. */
  take(): Buffer;
  /** Call this when nothing uses what was taken. */
  release(): void;
}

const firstBytes = 4096;

/** `held`: accounts for the memory. Without it, only the channel limits the size of the request. */
export function createRequestBuffer(held?: HeldBytes): RequestBuffer {
  let memory = Buffer.alloc(0);
  let length = 0;
  return {
    append(data) {
      const needed = length + data.length;
      if (needed > memory.length) {
        const bytes = Math.max(firstBytes, needed, memory.length * 2);
        if (held?.resize(bytes) !== undefined) return false;
        const grown = Buffer.allocUnsafeSlow(bytes);
        memory.copy(grown, 0, 0, length);
        memory = grown;
      }
      memory.set(data, length);
      length = needed;
      return true;
    },
    take() {
      const whole = memory.subarray(0, length);
      memory = Buffer.alloc(0);
      length = 0;
      return whole;
    },
    release() {
      memory = Buffer.alloc(0);
      length = 0;
      held?.resize(0);
    },
  };
}
