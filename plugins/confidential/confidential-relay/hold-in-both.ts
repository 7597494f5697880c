/** Counts a request against the limits of the stream and against the bound of the process. */
import type { HeldBytes } from "sluice-gateway/internal/http";
import type { MemoryHold } from "sluice-gateway/plugin";

/** `holdShared`: starts to count against the bound of the process. A request without bytes is not counted there. */
export function holdInBoth(own: HeldBytes, holdShared: () => MemoryHold): HeldBytes {
  let shared: MemoryHold | undefined;
  const release = (): void => {
    shared?.[Symbol.dispose]();
    shared = undefined;
  };
  return {
    get bytes() {
      return own.bytes;
    },
    resize(bytes) {
      const before = own.bytes;
      const exceeded = own.resize(bytes);
      if (bytes === 0) release();
      if (exceeded !== undefined || bytes === 0) return exceeded;
      shared ??= holdShared();
      if (shared.resize(bytes)) return undefined;
      own.resize(before);
      return "total";
    },
    [Symbol.dispose]() {
      own[Symbol.dispose]();
      release();
    },
  };
}
