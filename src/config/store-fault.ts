import type { StoreError } from "../store/store-error.ts";
import type { Config } from "./config.ts";
import type { Fault } from "./fault.ts";

export function storeFault({ code, message, remedy, member }: StoreError, config: Config): Fault {
  return { code, message, remedy, at: config.keyAt(`/store/${member}`) };
}
