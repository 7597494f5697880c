/** The data of one request while it arrives: in one piece of memory, however small the frames that it comes in. */

export interface RequestBuffer {
  append(data: Uint8Array): void;
  /** All of it; empty again from then on. */
  take(): Buffer;
}

const firstBytes = 4096;

/** How much there may be is bounded by the channel. */
export function createRequestBuffer(): RequestBuffer {
  let held = Buffer.alloc(0);
  let length = 0;
  return {
    append(data) {
      const needed = length + data.length;
      if (needed > held.length) {
        const grown = Buffer.allocUnsafeSlow(Math.max(firstBytes, needed, held.length * 2));
        held.copy(grown, 0, 0, length);
        held = grown;
      }
      held.set(data, length);
      length = needed;
    },
    take() {
      const whole = held.subarray(0, length);
      held = Buffer.alloc(0);
      length = 0;
      return whole;
    },
  };
}
