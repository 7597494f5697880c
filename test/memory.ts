/** The memory of plugins in tests that do not limit it. */
import { HeldBytes } from "../src/memory/held-bytes.ts";
import { createMetrics } from "../src/base/metrics.ts";

export const noMemoryLimit = new HeldBytes(Infinity, createMetrics());
