/** The gateway's own enclaves, for networks whose workers have none: it ends the encryption in its own process. */
import { fault } from "../fault.ts";
import type { OwnEnclaves } from "./service.ts";

/** Of a gateway that nobody attests. */
export const noOwnEnclaves: OwnEnclaves = {
  ready: Promise.resolve(),
  open: () =>
    Promise.resolve(fault("TERMINATION_NOT_AVAILABLE", "this gateway is no enclave itself")),
  close() {},
};
