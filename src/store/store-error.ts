import { messageOf } from "../base/message-of.ts";
import { errorCode } from "../base/error-code.ts";

/** A store that cannot be used. Thrown at start and by commands. A running gateway refuses requests instead. */
export class StoreError extends Error {
  readonly code: string;
  readonly remedy: string;
  readonly member: "data" | "postgres" | "redis";

  constructor(
    code: StoreErrorCode,
    message: string,
    remedy: string,
    cause?: unknown,
    member: "data" | "postgres" | "redis" = "data",
  ) {
    super(message, { cause });
    this.name = "StoreError";
    this.code = code;
    this.remedy = remedy;
    this.member = member;
  }
}

export type StoreErrorCode =
  | "SLUICE_STORE_UNWRITABLE"
  | "SLUICE_STORE_CORRUPT"
  | "SLUICE_STORE_NEWER"
  | "SLUICE_STORE_BUSY"
  | "SLUICE_STORE_FULL"
  | "SLUICE_STORE_IN_USE"
  | "SLUICE_STORE_UNREACHABLE"
  | "SLUICE_STORE_OLDER"
  | "SLUICE_STORE_SECRET"
  | "SLUICE_STORE_MOVED"
  | "SLUICE_STORE_NOT_MOVED"
  | "SLUICE_STORE_NOT_EMPTY"
  | "SLUICE_STORE_DIFFERS"
  | "SLUICE_BACKUP_EMPTY"
  | "SLUICE_BACKUP_EXISTS"
  | "SLUICE_BACKUP_UNWRITABLE"
  | "SLUICE_BACKUP_UNREADABLE"
  | "SLUICE_BACKUP_DAMAGED"
  | "SLUICE_RESTORE_INCOMPLETE"
  | "SLUICE_STORE_LOSSY"
  | "SLUICE_STORE_CLOCK"
  | "SLUICE_STORE_SETTINGS"
  | "SLUICE_STORE_FAILED";

/** Primary result codes of https://sqlite.org/rescode.html; the extended ones carry them in the low byte. */
const sqlite = {
  busy: 5,
  locked: 6,
  readonly: 8,
  corrupt: 11,
  full: 13,
  cantOpen: 14,
  notADb: 26,
};

/** Returns the primary SQLite result code of a node:sqlite error. Undefined for any other error. */
function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}

export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === sqlite.busy || code === sqlite.locked;
}

/** Converts an error of node:sqlite or node:fs on `file` to a StoreError. A StoreError is returned unchanged. */
export function explain(error: unknown, file: string): StoreError {
  if (error instanceof StoreError) return error;
  const detail = messageOf(error);
  switch (sqliteCode(error) ?? errorCode(error) ?? "") {
    case sqlite.busy:
    case sqlite.locked:
      return new StoreError(
        "SLUICE_STORE_BUSY",
        `${file} is locked by another process`,
        "Try again. If the file stays locked, find the process that has it open (fuser, lsof).",
        error,
      );
    case sqlite.corrupt:
    case sqlite.notADb:
      return new StoreError(
        "SLUICE_STORE_CORRUPT",
        `${file} is not a usable database (${detail})`,
        "Restore the file from a backup, together with its -wal file. Sluice has not changed it.",
        error,
      );
    case sqlite.full:
    case "ENOSPC":
    case "EDQUOT":
      return new StoreError(
        "SLUICE_STORE_FULL",
        `the disk is full: cannot write ${file}`,
        "Free some disk space.",
        error,
      );
    case sqlite.readonly:
    case sqlite.cantOpen:
    case "EACCES":
    case "EPERM":
    case "EROFS":
    case "ENOTDIR":
    case "EEXIST":
    case "EISDIR":
    case "ENOENT":
    case "ELOOP":
    case "ENAMETOOLONG":
      return new StoreError(
        "SLUICE_STORE_UNWRITABLE",
        `cannot write ${file} (${detail})`,
        "Set store.data (DATA_DIR) to a folder that this user can write to.",
        error,
      );
    default:
      return new StoreError(
        "SLUICE_STORE_FAILED",
        `cannot use ${file} (${detail})`,
        "Check the disk and the permissions of the file.",
        error,
      );
  }
}
