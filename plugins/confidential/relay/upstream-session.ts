/** An open session with an enclave, and its price. */
import type { Pricing } from "../../../src/services/networks.ts";
import type { OpenEnclave } from "./open-enclave.ts";

export interface StreamPrice {
  readonly pricing: Pricing;
  /** Returns the cost of a number of tokens in milli-CU. */
  costMilli(tokens: number): number;
}

/** Records metrics of the network's requests. Times are monotonic milliseconds, as returned by `now`. */
export interface UpstreamMetrics {
  now(): number;
  /** Records the time from `since`, when the worker got the request, to the first chunk of the answer. */
  firstToken(model: string, since: number): void;
  /** Records the end of an answer. `why`: empty if the answer is whole. */
  ended(model: string, since: number, why: "" | "broken" | "client_left"): void;
  used(
    model: string,
    tokens: { readonly promptTokens: number; readonly completionTokens: number },
  ): void;
}

export interface AttestedUpstream extends OpenEnclave {
  /** Undefined for the gateway's own enclave: its calls to the model are recorded as ordinary chat completions. */
  readonly records?: UpstreamMetrics | undefined;
  /** The worker, for log lines. Undefined for the gateway's own enclave. */
  readonly workerId: string | undefined;
  /** The price that is offered and reserved. A report with a lower coefficient is charged at the lower one. */
  readonly price: StreamPrice;
  /**
   * Called when the session has ended. `isHealthy`: false if the enclave failed, true if it did not. Undefined if the
   * enclave refused what the client sent, which says nothing about the enclave's health.
   */
  ended(isHealthy: boolean | undefined): void;
}

/** The same session after its attestation has been sent to the client. */
export type UpstreamSession = Omit<AttestedUpstream, "attestation">;
