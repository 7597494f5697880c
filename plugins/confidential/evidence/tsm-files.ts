/** The few things that are done with configfs, so that a test can stand in for the kernel. */
import { constants, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";

/** Paths are absolute. Each rejects with an error whose `code` is the kernel's. */
export interface TsmFiles {
  mkdir(path: string): Promise<void>;
  /** To the end of the file. */
  read(path: string): Promise<Buffer>;
  /** In one write. */
  write(path: string, bytes: Uint8Array): Promise<void>;
  rmdir(path: string): Promise<void>;
}

export const kernelFiles: TsmFiles = {
  mkdir: (path) => mkdir(path),
  read: (path) => readFile(path),
  // Neither made nor cut: the file is the kernel's.
  write: (path, bytes) => writeFile(path, bytes, { flag: constants.O_WRONLY }),
  rmdir,
};

/** The code of what one of them rejected with; another error is a bug and is thrown on. */
export function errorCode(error: unknown): string {
  if (error instanceof Error && "code" in error && typeof error.code === "string") {
    return error.code;
  }
  throw error;
}
