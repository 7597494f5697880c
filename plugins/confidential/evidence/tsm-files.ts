/** The file operations on configfs, behind an interface so that tests can simulate the kernel. */
import { constants, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";

/** Paths are absolute. Each rejects with an error whose `code` is the kernel's. */
export interface TsmFiles {
  mkdir(path: string): Promise<void>;
  /** Reads the whole file. */
  read(path: string): Promise<Buffer>;
  /** Writes all bytes with one system call. */
  write(path: string, bytes: Uint8Array): Promise<void>;
  rmdir(path: string): Promise<void>;
}

export const kernelFiles: TsmFiles = {
  mkdir: (path) => mkdir(path),
  read: (path) => readFile(path),
  // The kernel owns the file, so it is neither created nor truncated.
  write: (path, bytes) => writeFile(path, bytes, { flag: constants.O_WRONLY }),
  rmdir,
};

/** Returns the code of an error of `TsmFiles`. Any other error is a bug and is thrown again. */
export function errorCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") {
    return error.code;
  }
  throw error;
}
