/** An open session with the enclave that serves it, and what it costs. */
import type { Pricing } from "../../services/networks.ts";
import type { OpenEnclave } from "./open.ts";

export interface StreamPrice {
  readonly pricing: Pricing;
  /** Milli-CU of so many tokens. */
  costMilli(tokens: number): number;
}

export interface Serving extends OpenEnclave {
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
export type KeptServing = Omit<Serving, "attestation">;
