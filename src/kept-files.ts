/**
 * Files that make the next start faster. The build replaces this module by the `KeptFiles` of
 * src/commands/run-bundle.ts; in a checkout, only Node's compile cache is kept.
 */
import { flushCompileCache } from "node:module";

/** Files of this build, for this user. `name`: of a file. */
export interface KeptFiles {
  /**
   * Writes the code that V8 has compiled so far. Called when a process has started: V8 drops code that has not run for
   * a while, so a server no longer has that of its start when it stops.
   */
  readonly keepCompiledCode: () => void;
  /** Returns undefined if the file is missing or damaged. */
  readonly readKept: (name: string) => Buffer | undefined;
  /** Does nothing if the file cannot be written. Only this user can read the file. */
  readonly writeKept: (name: string, bytes: Buffer) => void;
}

export const { keepCompiledCode, readKept, writeKept }: KeptFiles = {
  keepCompiledCode: flushCompileCache,
  readKept: () => undefined,
  writeKept: () => {},
};
