/** The hooks `responseFlush`: the bytes that steps send after the last chunk of a body. */
import type { PlacedStep } from "./compile.ts";
import type { LiveExchange } from "./exchange.ts";
import { invalidChunk, responseChunk, type HookPhase } from "./hook-phases.ts";
import { runHooks } from "./hooks.ts";

const responseFlush: HookPhase<Uint8Array[]> = {
  name: "responseFlush",
  mayReply: false,
  enters: false,
  includesFailed: false,
  argument: undefined,
  accept(x, step, parts, result) {
    if (result === undefined || result === null) return;
    if (!(result instanceof Uint8Array)) throw invalidChunk("responseFlush", result);
    const chunk = { bytes: result };
    void runHooks(x, responseChunk, chunk, firstAbove(x, step));
    if (chunk.bytes.length > 0) parts.push(chunk.bytes);
  },
  // The step may have held back bytes, without which the body must not look complete.
  ignoresFailure: () => false,
};

function firstAbove({ compiled }: LiveExchange, { depth }: PlacedStep): number {
  const at = compiled.responseChunk.findIndex((hook) => hook.depth < depth);
  return at === -1 ? compiled.responseChunk.length : at;
}

export function flush(x: LiveExchange): Uint8Array | undefined {
  if (x.compiled.responseFlush.length === 0) return undefined;
  const parts: Uint8Array[] = [];
  void runHooks(x, responseFlush, parts);
  return parts.length === 0 ? undefined : Buffer.concat(parts);
}
