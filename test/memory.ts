/** The memory that this process uses. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

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
