/** Returns memory to the system that only the start of a gateway needed: about 10 MiB. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Clock } from "../plugin.ts";

/** The gateway waits this long for a moment without requests, because collecting stops it for about 50 ms. */
const idleMs = 1_000;

/** Frees the memory once, at the first check at which `isIdle` returns true. */
export function releaseStartMemory(clock: Clock, isIdle: () => boolean): Disposable {
  const timer = clock.every(idleMs, () => {
    if (!isIdle()) return;
    timer[Symbol.dispose]();
    collectAll();
  });
  return timer;
}

/**
 * V8 never shrinks the space for new objects of a process that does nothing, and it keeps the code of functions that ran
 * once. Only this kind of collection frees both, and `gc` only exists in contexts that are created with the flag.
 */
function collectAll(): void {
  setFlagsFromString("--expose-gc");
  // A function of V8: https://v8.dev/docs, "flags"; Node's types declare it too.
  const gc = runInNewContext("gc") as NonNullable<typeof globalThis.gc>;
  setFlagsFromString("--no-expose-gc");
  gc({ type: "major", execution: "sync", flavor: "last-resort" });
}
