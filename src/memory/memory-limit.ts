/** Derives how many bytes of its clients the gateway may hold from the memory that its process may use. */
import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

const mebibyte = 1024 * 1024;
/** Fraction of the memory of the process. The rest is for the gateway itself, its caches and copies of what it holds. */
const memoryShare = 1 / 4;
/** Fraction of V8's heap. Texts are held there, and V8 ends the process when the heap is full. */
const heapShare = 1 / 2;
const minHeldBytes = 16 * mebibyte;

export interface ProcessMemory {
  /** Limit of the container (cgroup v1 or v2) in bytes. 0 or more than `total` if there is none. */
  readonly constrained: number;
  /** Memory of the machine in bytes. */
  readonly total: number;
  /** Maximum size of V8's heap in bytes. */
  readonly heap: number;
}

function processMemory(): ProcessMemory {
  return {
    constrained: process.constrainedMemory(),
    total: totalmem(),
    heap: getHeapStatistics().heap_size_limit,
  };
}

/** Returns the default of `server.unfinishedBodyBytes`. */
export function defaultHeldBytes(memory: ProcessMemory = processMemory()): number {
  const { constrained, total, heap } = memory;
  const limit = constrained > 0 ? Math.min(constrained, total) : total;
  return Math.max(minHeldBytes, Math.floor(Math.min(limit * memoryShare, heap * heapShare)));
}
