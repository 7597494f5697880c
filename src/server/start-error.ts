/** A start that failed, told as faults: what was wrong, where, and what to do. */
import type { Config } from "../config/config.ts";
import { fault, type Fault } from "../config/fault.ts";
import { StoreError } from "../store/store-error.ts";

export class StartError extends Error {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map((one) => `${one.code}: ${one.message}`).join("\n"));
    this.name = "StartError";
    this.faults = faults;
  }

  /** Whatever was thrown while starting, as one fault. */
  static from(error: unknown, config: Config): StartError {
    return error instanceof StartError ? error : new StartError([faultOf(error, config)]);
  }
}

/** What the system answers when it does not give us an address. */
const listenCodes = ["EADDRINUSE", "EACCES", "EADDRNOTAVAIL", "ENOTFOUND"];

function faultOf(error: unknown, config: Config): Fault {
  const at = { file: config.file, line: 1, col: 1 };
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof StoreError) return { code: error.code, message, remedy: error.remedy, at };
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const kind = listenCodes.includes(code) ? "SLUICE_LISTEN_FAILED" : "SLUICE_START_FAILED";
  return fault(kind, message, { at });
}
