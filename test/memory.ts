/** The memory of plugins in tests that do not limit it, and the memory that this process uses. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { HeldBytes } from "../src/memory/held-bytes.ts";
import { createMetrics } from "../src/base/metrics.ts";

export const noMemoryLimit = new HeldBytes(Infinity, createMetrics());

/** Returns a function that collects garbage, and returns the bytes that are in use. */
export function collectedMemory(): () => number {
  setFlagsFromString("--expose-gc");
  // The function exists in contexts that are made after the flag was set.
  const collect = runInNewContext("gc") as () => void;
  return () => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
}
