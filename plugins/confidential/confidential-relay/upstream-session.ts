import type { CallRecords, Price } from "sluice-gateway/services";
import type { OpenEnclave } from "./open-enclave.ts";

export interface AttestedUpstream extends OpenEnclave {
  /** Undefined for the gateway's own enclave: its calls to the model are recorded as ordinary chat completions. */
  readonly records?: CallRecords | undefined;
  /** For log lines. Undefined for the gateway's own enclave. */
  readonly workerId: string | undefined;
  /** The price that is offered and reserved. A report with a lower coefficient is charged at the lower one. */
  readonly price: Price;
  /**
   * `isHealthy`: false if the enclave failed, true if it did not. Undefined if the enclave refused the client's input,
   * which does not show whether the enclave is healthy.
   */
  onEnd(isHealthy: boolean | undefined): void;
}

/** An open session, whose attestation has been sent to the client. */
export type UpstreamSession = Omit<AttestedUpstream, "attestation">;
