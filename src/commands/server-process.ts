/**
 * V8 and malloc read their memory settings only when a process starts. So a server command first replaces its process
 * with one that has the settings; process id, standard streams and arguments stay the same.
 */
import { setFlagsFromString } from "node:v8";
import { keepCompiledCode } from "../kept-files.ts";

/** The space for new objects in MiB, by default 16 to 32. With 8, it saves 35 MiB. */
const maxSemiSpace = "--max-semi-space-size";
/** V8 starts with all of that space. A start soon needs it, and V8 would copy most objects each time the space grows. */
const minSemiSpace = "--min-semi-space-size";

/** Collects the heap after it has grown by a fifth, not only after it has doubled. Saves 15 MiB under load. */
const heapGrowth = "--heap-growing-percent";

/**
 * glibc returns blocks of this size, such as those of V8's compilers, to the kernel when they are freed. Saves 12 MiB.
 */
const settings = { MALLOC_MMAP_THRESHOLD_: "32768" };

/**
 * Does not return if it replaces the process. It returns without a change if the parent has an IPC channel (`node
 * --watch`), on Windows, or without the permission.
 */
export function becomeServerProcess(semiSpaceMiB: number): void {
  const { argv, channel, env, execArgv, execPath, platform } = process;
  const flags = [`${maxSemiSpace}=${semiSpaceMiB}`, `${minSemiSpace}=${semiSpaceMiB}`];
  const isReplaced = execArgv.includes(flags[0] ?? "");
  if (platform === "win32" || channel !== undefined || isReplaced) return;
  try {
    // The flags and variables of the operator come last, so they take precedence.
    const command = [execPath, ...flags, ...execArgv, ...argv.slice(1)];
    process.execve?.(execPath, command, { ...settings, ...env });
  } catch {
    // The server also works without the settings; it only uses more memory.
  }
}

/**
 * Called when the server has started: what a start allocates stays in use, so collecting the heap before would only
 * take time. A value on Node's command line takes precedence.
 */
export function limitHeapGrowth(): void {
  // V8 refuses code that was compiled with other flags.
  keepCompiledCode();
  if (process.execArgv.some((flag) => flag.startsWith(heapGrowth))) return;
  setFlagsFromString(`${heapGrowth}=20`);
}
