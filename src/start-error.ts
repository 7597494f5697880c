import type { Config } from "./config/config.ts";
import { fault, type Fault } from "./config/fault.ts";
import { StoreError } from "./store/store-error.ts";
import { storeFault } from "./config/store-faults.ts";
import { ListenError } from "./http/bind.ts";
import { TlsError } from "./http/tls.ts";
import { messageOf } from "./base/message-of.ts";

export class StartError extends Error {
  readonly faults: readonly Fault[];

  constructor(faults: readonly Fault[]) {
    super(faults.map((one) => `${one.code}: ${one.message}`).join("\n"));
    this.name = "StartError";
    this.faults = faults;
  }

  static from(error: unknown, config: Config): StartError {
    return error instanceof StartError ? error : new StartError([faultOf(error, config)]);
  }
}

function faultOf(error: unknown, config: Config): Fault {
  if (error instanceof StoreError) return storeFault(error, config);
  const message = messageOf(error);
  if (error instanceof ListenError) {
    const { section, remedy } = error;
    return fault("SLUICE_LISTEN_FAILED", message, { at: config.keyAt(`/${section}`), remedy });
  }
  if (error instanceof TlsError) {
    return fault("SLUICE_TLS_INVALID", message, { at: config.keyAt("/server/tls") });
  }
  return fault("SLUICE_START_FAILED", message, { at: { file: config.file, line: 1, col: 1 } });
}
