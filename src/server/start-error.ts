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
  const top = { file: config.file, line: 1, col: 1 };
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof StoreError) {
    return { code: error.code, message, remedy: error.remedy, at: top };
  }
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (!listenCodes.includes(code)) return fault("SLUICE_START_FAILED", message, { at: top });
  // Both listeners on one port: the admin listener, which opens last, is the one that found it taken.
  const isAdmin = error instanceof Error && "port" in error && error.port === config.admin.port;
  const at = config.sectionAt(isAdmin ? "admin" : "server");
  return fault("SLUICE_LISTEN_FAILED", message, { at });
}
