/** An open session with the enclave that serves it, and what it costs. */
import type { Pricing } from "../../../src/services/networks.ts";
import type { OpenEnclave } from "./open-enclave.ts";

export interface StreamPrice {
  readonly pricing: Pricing;
  /** Milli-CU of so many tokens. */
  costMilli(tokens: number): number;
}

/** Metrics of the network's requests. Times are monotonic milliseconds, from `now`. */
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
  /** Undefined for the gateway's own enclave, whose calls to the model are recorded as plain chat completions. */
  readonly records?: UpstreamMetrics | undefined;
  /** For log lines; undefined: the gateway's own enclave. */
  readonly workerId: string | undefined;
  /** What is offered and reserved at; a report of a lower coefficient is charged at that. */
  readonly price: StreamPrice;
  /**
   * The session is over. `isSound`: nothing went wrong on the enclave's side; undefined: it would not go on with what the
   * client sent, which says nothing of it.
   */
  ended(isSound: boolean | undefined): void;
}

/** What a session needs of it once its client has been sent the attestation. */
export type UpstreamSession = Omit<AttestedUpstream, "attestation">;
