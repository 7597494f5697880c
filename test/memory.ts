/** The memory of plugins in tests that do not limit it. */
import { HeldBytes } from "../src/http/held-bytes.ts";
import { createMetrics } from "../src/metrics.ts";

export const noMemoryLimit = new HeldBytes(Infinity, createMetrics());
