/** The calls whose answers can be proved (decisions.md section 18). */
import { blockReads } from "./block-reads.ts";
import { ParamsError } from "./params.ts";
import type { ProvableRead, ReadCall } from "./read.ts";
import { stateReads } from "./state-reads.ts";

const reads = new Map<string, ReadCall>(Object.entries({ ...stateReads, ...blockReads }));

/** Returns true if there is a proof for a call of this method with params that name a block. */
export function isProvable(method: string): boolean {
  return reads.has(method);
}

/** `params`: JSON text. Undefined if there is no proof for such a call. */
export function provableRead(method: string, params: string): ProvableRead | undefined {
  try {
    return reads.get(method)?.(params);
  } catch (error) {
    if (error instanceof ParamsError) return undefined;
    throw error;
  }
}
