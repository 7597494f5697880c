/** Keeps compiled code. The build replaces this module by the `keep` of src/commands/run-bundle.ts. */
import { flushCompileCache } from "node:module";

/**
 * Writes the code that V8 has compiled so far for the next process. Called when a process has started: V8 drops code
 * that has not run for a while, so a server no longer has that of its start when it stops.
 */
export function keepCompiledCode(): void {
  flushCompileCache();
}
