/**
 * The process that a server runs in. V8 and malloc read their memory settings only when a process starts. So a server
 * command first replaces its process with one that has the settings; process id, standard streams and arguments stay
 * the same.
 */
import { setFlagsFromString } from "node:v8";
import { keepCompiledCode } from "../kept-files.ts";

/** The space for new objects in MiB, by default 16 to 32. With 8, it saves 35 MiB. */
const maxSemiSpace = "--max-semi-space-size";
/** V8 starts with all of that space. A start soon needs it, and V8 would copy most objects each time the space grows. */
const minSemiSpace = "--min-semi-space-size";

/** Collects the whole heap after it has grown by a fifth, not only after it has doubled. Saves 15 MiB under load. */
const heapGrowth = "--heap-growing-percent";

/**
 * glibc setting: returns blocks of this size and larger, such as those of V8's compilers, to the kernel when they are
 * freed. Saves 12 MiB.
 */
const settings = { MALLOC_MMAP_THRESHOLD_: "32768" };

/**
 * Replaces this process, in which case it does not return. It returns without a change if the parent has an IPC channel
 * (`node --watch`), and if the process cannot be replaced: on Windows, or without the permission. `semiSpaceMiB`: space
 * for new objects. With less, V8 copies more of them.
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
