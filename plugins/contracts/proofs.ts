/** The service `proofs`: answers of nodes that are proved against the chain. Implemented in plugins/proofs. */
import type { Ledger, LedgerRpc } from "./ledger.ts";

declare module "sluice-gateway/plugin" {
  interface ServiceTypes {
    proofs: Proofs;
  }
}

export interface Proofs {
  /** Returns the prover of the upstream with this name. Undefined if the upstream has neither `checkpoint` nor `proof`. */
  prover(upstream: string): Prover | undefined;
}

export interface Prover {
  /**
   * Returns what to run instead of `rpc` in order to prove the answer. Undefined if nobody asks for proofs: neither the
   * upstream nor the client.
   */
  prove(call: UnprovedCall): ProvedRpc | undefined;
}

export interface UnprovedCall {
  readonly ledger: Ledger;
  /** The result of `ledger.rpc(body)`. It has not run. */
  readonly rpc: LedgerRpc;
  readonly body: Buffer;
  /** The value of the request header `X-Sluice-Proof`. */
  readonly wanted: string | undefined;
}

export interface ProvedRpc extends LedgerRpc {
  /** After `run`: the value of the response header `X-Sluice-Proof` (decisions.md section 18). */
  readonly proof: string;
}
