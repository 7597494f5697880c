/** A JSON-RPC body whose answer is proved where that is possible (decisions.md section 18). */
import { readJsonRpc, type CallReporter, type Memory } from "sluice-gateway/plugin";
import type {
  Ledger,
  LedgerFailure,
  LedgerRpc,
  ProvedRpc,
  RpcAnswer,
  RpcCaller,
} from "sluice-gateway/services";
import type { FinalizedChain } from "../proofs/finalized-chain.ts";
import { headNode } from "../proofs/ledger-node.ts";
import type { Header } from "../proofs/header.ts";
import { NodeError, type HeadNode } from "../proofs/node.ts";
import type { Mode } from "../proofs/options.ts";
import type { Headers } from "./headers.ts";
import { provableRead } from "./provable-reads.ts";
import { UnprovableError, type ProvableRead, type ProvedResult } from "./read.ts";

export interface ProvedCallDeps {
  /** Undefined if the client asked for something else, which is refused. */
  readonly mode: Mode | undefined;
  readonly ledger: Ledger;
  readonly rpc: LedgerRpc;
  readonly body: Buffer;
  /** Undefined without a checkpoint. */
  readonly chain: FinalizedChain | undefined;
  /** The nodes, which are asked one by one if the proof that the ledger returns is wrong. */
  readonly nodes: readonly HeadNode[];
  readonly headers: Headers;
  /** Called once per call. */
  readonly count: (outcome: "finalized" | "included" | "none") => void;
}

/** Facts about chain and node, which have no proof. */
const constants: ReadonlySet<string> = new Set([
  "rpc_methods",
  "system_chain",
  "system_chainType",
  "system_name",
  "system_properties",
  "system_version",
  "chain_getRuntimeVersion",
  "state_getRuntimeVersion",
  "archive_v1_genesisHash",
  "chainSpec_v1_chainName",
  "chainSpec_v1_genesisHash",
  "chainSpec_v1_properties",
]);
const unknownMode = JSON.stringify({
  code: -32600,
  message: "Invalid Request",
  data: { reason: "X-Sluice-Proof: expected off, prefer or require" },
});

export class ProvedCall implements ProvedRpc {
  proof = "";
  readonly #deps: ProvedCallDeps;
  readonly #call: { readonly id: string; readonly method: string } | undefined;
  readonly #read: ProvableRead | undefined;
  #outcome: "proved" | "refused" | undefined;
  #isReleased = false;

  constructor(deps: ProvedCallDeps) {
    this.#deps = deps;
    const parsed = readJsonRpc(deps.body, 1);
    if (parsed.kind !== "single" || parsed.item.kind !== "call") return;
    const { id, method, params } = parsed.item;
    if (!deps.ledger.methods.has(method)) return;
    this.#call = { id, method };
    this.#read = provableRead(method, params);
  }

  get costMilliCu(): number {
    return this.#deps.rpc.costMilliCu;
  }

  get lines(): LedgerRpc["lines"] {
    if (this.#outcome === undefined) return this.#deps.rpc.lines;
    const method = this.#call?.method ?? "";
    return this.#outcome === "proved" ? [{ method, costMilliCu: this.costMilliCu }] : [];
  }

  get failure(): LedgerFailure | undefined {
    return this.#deps.rpc.failure;
  }

  async run(caller?: RpcCaller, memory?: Memory): Promise<RpcAnswer> {
    const { mode, rpc, count } = this.#deps;
    if (mode === undefined) {
      this.#outcome = "refused";
      this.proof = "none; reason=unknown value of X-Sluice-Proof";
      return rpc.refuse(unknownMode);
    }
    const proved = await this.#prove();
    if (typeof proved !== "string") {
      const { result, hash, root, state } = proved;
      this.#outcome = "proved";
      this.proof = `${state}; block=${hash}${root === undefined ? "" : `; root=${root}`}`;
      count(state);
      return `{"jsonrpc":"2.0","id":${this.#call?.id ?? "null"},"result":${result}}`;
    }
    this.proof = `none; reason=${proved}`;
    count("none");
    if (this.#isReleased) {
      this.#outcome = "refused";
      return undefined;
    }
    if (mode !== "require" || constants.has(this.#call?.method ?? "")) {
      return await rpc.run(caller, memory);
    }
    this.#outcome = "refused";
    const data = JSON.stringify({ reason: proved });
    return rpc.refuse(`{"code":-32052,"message":"Not Proved","data":${data}}`);
  }

  refuse(error: string): string | undefined {
    return this.#deps.rpc.refuse(error);
  }

  release(): void {
    this.#isReleased = true;
    this.#deps.rpc.release();
  }

  report(to: CallReporter, refusedWith?: string): void {
    if (this.#outcome === "proved")
      to.called({ kind: "node", name: this.#call?.method ?? "", isListed: true });
    else this.#deps.rpc.report(to, this.#outcome === "refused" ? "NOT_PROVED" : refusedWith);
  }

  /** Returns the reason if the answer cannot be proved. */
  async #prove(): Promise<
    (ProvedResult & { readonly hash: string; readonly state: "finalized" | "included" }) | string
  > {
    const { mode, chain, ledger, nodes, headers } = this.#deps;
    if (this.#call === undefined) return "only a single call of a known method is proved";
    if (this.#read === undefined) return "this call cannot be proved";
    const { block = mode === "require" ? chain?.hash : undefined, run } = this.#read;
    if (block === undefined) return "the call names no block";
    const hash = typeof block === "number" ? chain?.hashAt(block) : block;
    if (hash === undefined) return "the block with this number is not proved to be finalized";
    const isFinalized = (): boolean => chain?.has(hash) === true;
    if (mode === "require" && !isFinalized()) return "the block is not proved to be finalized";
    let reason = "";
    for (const node of [throughLedger(ledger), ...nodes]) {
      try {
        const header = (): Promise<Header> => headers.get(node, hash);
        const proved = await run({ node, hash, header });
        return { ...proved, hash, state: isFinalized() ? "finalized" : "included" };
      } catch (error) {
        if (error instanceof UnprovableError) return error.message;
        if (!(error instanceof NodeError)) throw error;
        reason = error.message;
      }
    }
    return reason;
  }
}

/** Calls any node, with the cache and the retries of the ledger. */
function throughLedger(ledger: Ledger): HeadNode {
  return headNode({
    name: "any",
    call: (method, params) => ledger.call(ledger.internal(method), Buffer.from(params)),
  });
}
