/**
 * The process that a server runs in. V8 and malloc are told how they shall keep memory when a process starts, and not
 * later. So a command that serves begins by replacing its process with one that was told: with the same id, the same
 * standard streams and the same arguments. What each saves under load was measured (bench/notes/2026-11-node-proxy.md).
 */

const flags = [
  // For new objects, instead of 16 to 32 MiB: 35 MiB less.
  "--max-semi-space-size=8",
  // The whole heap is collected when it has grown by a fifth, not when it has doubled: 15 MiB less.
  "--heap-growing-percent=20",
];

/** glibc's: what is as large as this goes back to the kernel when it is freed, as compilers do with it: 12 MiB less. */
const settings = { MALLOC_MMAP_THRESHOLD_: "32768" };

/**
 * Does not return where a new process takes over. It stays as it is under a parent that has a channel to it (`node
 * --watch`), and where processes cannot be replaced: on Windows, or without the permission.
 */
export function becomeServerProcess(): void {
  const { argv, channel, env, execArgv, execPath, platform } = process;
  const [known = ""] = flags;
  if (platform === "win32" || channel !== undefined || execArgv.includes(known)) return;
  try {
    // What the operator gave comes last, and counts.
    const command = [execPath, ...flags, ...execArgv, ...argv.slice(1)];
    process.execve?.(execPath, command, { ...settings, ...env });
  } catch {
    // A server that takes more memory is one all the same.
  }
}
