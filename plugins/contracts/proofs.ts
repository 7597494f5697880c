/** The service `proofs`: answers of nodes that are proved against the chain. Implemented in plugins/proofs. */
import type { LedgerAnswer } from "./ledger-calls.ts";
import type { Ledger, LedgerRpc } from "./ledger.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    proofs: Proofs;
  }
}

export interface Proofs {
  /** Undefined if the upstream has neither `checkpoint` nor `proof`. */
  prover(upstream: string): Prover | undefined;
}

export interface Prover {
  /**
   * Returns what to run instead of `rpc` in order to prove the answer. Undefined if neither the upstream nor the client
   * asks for proofs.
   */
  prove(call: UnprovedCall): ProvedRpc | undefined;
  /**
   * Answers a call of the gateway itself like `Ledger.call`, with a proof if there is one. Undefined if the upstream
   * does not ask for proofs.
   */
  readonly call: ((...call: Parameters<Ledger["call"]>) => Promise<ProvedAnswer>) | undefined;
  /**
   * Returns the JSON-RPC error for a subscription or a follow, which cannot be proved, as JSON text with its code for
   * logs. Undefined if they are allowed. `wanted`: see `UnprovedCall`.
   */
  refusal(
    wanted: string | undefined,
  ): { readonly code: string; readonly error: string } | undefined;
}

/** `proof`: as in `ProvedRpc`. */
export interface ProvedAnswer {
  readonly answer: LedgerAnswer;
  readonly proof: string;
}

export interface UnprovedCall {
  /** The result of `ledger.rpc(body, over)`. It has not run. */
  readonly rpc: LedgerRpc;
  readonly body: Buffer;
  /** Default: `http`. */
  readonly over?: Parameters<Ledger["rpc"]>[1];
  /** The value of the header `X-Sluice-Proof` of the request or the handshake. */
  readonly wanted: string | undefined;
}

export interface ProvedRpc extends LedgerRpc {
  /** After `run`: the value of the response header `X-Sluice-Proof` (decisions.md section 18). */
  readonly proof: string;
}
