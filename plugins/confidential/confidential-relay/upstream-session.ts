/** An open session with an enclave, and its price. */
import type { CallRecords, Price } from "sluice-gateway/services";
import type { OpenEnclave } from "./open-enclave.ts";

export interface AttestedUpstream extends OpenEnclave {
  /** Undefined for the gateway's own enclave: its calls to the model are recorded as ordinary chat completions. */
  readonly records?: CallRecords | undefined;
  /** The worker, for log lines. Undefined for the gateway's own enclave. */
  readonly workerId: string | undefined;
  /** The price that is offered and reserved. A report with a lower coefficient is charged at the lower one. */
  readonly price: Price;
  /**
   * Called when the session has ended. `isHealthy`: false if the enclave failed, true if it did not. Undefined if the
   * enclave refused the client's input, which does not show whether the enclave is healthy.
   */
  onEnd(isHealthy: boolean | undefined): void;
}

/** A session that is open: its attestation has been sent to the client. */
export type UpstreamSession = Omit<AttestedUpstream, "attestation">;
