/** The memory of a server: V8 keeps its heap small. */
import { setFlagsFromString } from "node:v8";
import { keepCompiledCode } from "../keep-compiled-code.ts";

/** Collects the whole heap after it has grown by a fifth, not only after it has doubled. Saves 15 MiB under load. */
const heapGrowth = "--heap-growing-percent";

/**
 * Makes V8 keep the heap small from now on. A server calls this when it has started: objects that a start allocates
 * stay in use, so collecting the heap during the start would only take time. A value on Node's command line takes
 * precedence.
 */
export function limitHeapGrowth(): void {
  // V8 refuses code that was compiled with other flags.
  keepCompiledCode();
  if (process.execArgv.some((flag) => flag.startsWith(heapGrowth))) return;
  setFlagsFromString(`${heapGrowth}=20`);
}
