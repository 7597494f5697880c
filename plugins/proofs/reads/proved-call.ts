/** A JSON-RPC call whose answer is proved where that is possible (decisions.md section 18). */
import type { CallReporter, Memory } from "sluice-gateway/plugin";
import type {
  Ledger,
  LedgerFailure,
  LedgerMethod,
  LedgerRpc,
  ProvedRpc,
  RpcAnswer,
  RpcCaller,
} from "sluice-gateway/services";
import type { Header } from "../proofs/header.ts";
import { headNode } from "../proofs/ledger-node.ts";
import { NodeError, type HeadNode } from "../proofs/node.ts";
import type { Mode } from "../proofs/options.ts";
import type { ProvedChain } from "../proofs/proved-chain.ts";
import type { KeptNodes } from "../trie/kept-nodes.ts";
import type { Headers } from "./headers.ts";
import type { WrongNodes } from "./wrong-nodes.ts";
import { proofText, withProof, type CallProof } from "./proof-member.ts";
import { provableRead } from "./provable-reads.ts";
import { UnprovableError, type ProvableRead } from "./read.ts";

export interface ProverDeps {
  readonly ledger: Ledger;
  /** Undefined with neither a checkpoint nor a relay chain. */
  readonly chain: ProvedChain | undefined;
  /** The nodes, which are asked one by one if the proof that the ledger returns is wrong. */
  readonly nodes: readonly HeadNode[];
  readonly headers: Headers;
  readonly kept: KeptNodes;
  readonly wrongNodes: WrongNodes;
  readonly count: (outcome: CallProof["state"]) => void;
}

export interface Wanted {
  /** Undefined if the client asked for something else, which is refused. */
  readonly mode: Mode | undefined;
  /** Whether the answer has the member `proof`. `return`: with what a client needs in order to check it. */
  readonly member: boolean | "return";
}

export type Item =
  | { readonly kind: "call"; readonly id: string; readonly method: string; readonly params: string }
  | { readonly kind: "other" };

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
/** Submitting reads nothing from the chain, so nothing can be proved. */
const submits = "author_submitExtrinsic";
const unknownMode = JSON.stringify({
  code: -32600,
  message: "Invalid Request",
  data: { reason: "X-Sluice-Proof: expected off, prefer, require or return" },
});

export function notProved(reason: string): string {
  return `{"code":-32052,"message":"Not Proved","data":${JSON.stringify({ reason })}}`;
}

export class ProvedCall implements ProvedRpc {
  /** Valid after `run`. */
  outcome: CallProof = { state: "none", reason: "the call was not sent" };
  readonly #deps: ProverDeps;
  readonly #wanted: Wanted;
  readonly #rpc: LedgerRpc;
  readonly #id: string;
  /** Undefined if this is not a call of a whitelisted method. */
  readonly #method: string | undefined;
  readonly #read: ProvableRead | undefined;
  #ended: "proved" | "refused" | undefined;
  #isReleased = false;

  /** `rpc`: answers the item without a proof. */
  constructor(deps: ProverDeps, wanted: Wanted, rpc: LedgerRpc, item: Item) {
    this.#deps = deps;
    this.#wanted = wanted;
    this.#rpc = rpc;
    const isCall = item.kind === "call";
    this.#id = isCall ? item.id : "null";
    if (!isCall || (!deps.ledger.methods.has(item.method) && item.method !== submits)) return;
    this.#method = item.method;
    this.#read = provableRead(item.method, item.params);
  }

  get proof(): string {
    return proofText(this.outcome);
  }

  get costMilliCu(): number {
    return this.#rpc.costMilliCu;
  }

  get lines(): LedgerRpc["lines"] {
    if (this.#ended === undefined) return this.#rpc.lines;
    const method = this.#method ?? "";
    return this.#ended === "proved" ? [{ method, costMilliCu: this.costMilliCu }] : [];
  }

  get failure(): LedgerFailure | undefined {
    return this.#rpc.failure;
  }

  async run(caller?: RpcCaller, memory?: Memory): Promise<RpcAnswer> {
    const answer = await this.#answer(caller, memory);
    return this.#wanted.member === false ? answer : withProof(answer, this.outcome);
  }

  refuse(error: string): string | undefined {
    return this.#rpc.refuse(error);
  }

  release(): void {
    this.#isReleased = true;
    this.#rpc.release();
  }

  report(to: CallReporter, refusedWith?: string): void {
    if (this.#ended === "proved")
      to.called({ kind: "node", name: this.#method ?? "", isListed: true });
    else this.#rpc.report(to, this.#ended === "refused" ? "NOT_PROVED" : refusedWith);
  }

  async #answer(caller?: RpcCaller, memory?: Memory): Promise<RpcAnswer> {
    const { mode } = this.#wanted;
    if (mode === undefined) {
      this.#ended = "refused";
      this.outcome = { state: "none", reason: "unknown value of X-Sluice-Proof" };
      return this.#rpc.refuse(unknownMode);
    }
    const proved = await this.#prove();
    const isProved = typeof proved !== "string";
    this.outcome = isProved ? proved.proof : { state: "none", reason: proved };
    this.#deps.count(this.outcome.state);
    if (isProved) {
      this.#ended = "proved";
      return `{"jsonrpc":"2.0","id":${this.#id},"result":${proved.result}}`;
    }
    if (this.#isReleased) {
      this.#ended = "refused";
      return undefined;
    }
    const method = this.#method ?? "";
    if (mode !== "require" || constants.has(method) || method === submits)
      return await this.#rpc.run(caller, memory);
    this.#ended = "refused";
    return this.#rpc.refuse(notProved(proved));
  }

  #prove(): Promise<Proved | string> | string {
    if (this.#method === undefined) return "not a call of a known method";
    return prove(this.#deps, this.#wanted, this.#read);
  }
}

interface Proved {
  readonly result: string;
  readonly proof: CallProof;
}

/** Returns the reason if the answer cannot be proved. */
export async function prove(
  { chain, ledger, nodes, headers, kept, wrongNodes }: ProverDeps,
  { mode, member }: Wanted,
  read: ProvableRead | undefined,
): Promise<Proved | string> {
  if (read === undefined) return "this call cannot be proved";
  const { block = mode === "require" ? chain?.hash : undefined, run } = read;
  if (block === undefined) return "the call names no block";
  const hash = typeof block === "number" ? chain?.hashAt(block) : block;
  if (hash === undefined) return "the block with this number is not proved to be finalized";
  const isFinalized = (): boolean => chain?.has(hash) === true;
  if (mode === "require" && !isFinalized()) return "the block is not proved to be finalized";
  let reason = "";
  const called: [LedgerMethod, Buffer][] = [];
  for (const node of [throughLedger(ledger, called), ...nodes]) {
    try {
      const header = (): Promise<Header> => headers.get(node, hash);
      const { result, root, nodes: used = [] } = await run({ node, hash, kept, header });
      const state = isFinalized() ? "finalized" : "included";
      const proof: CallProof = { state, block: hash, root };
      if (member !== "return") return { result, proof };
      const finality = chain?.proofOf(hash) ?? { headers: [(await header()).scale] };
      return { result, proof: { ...proof, nodes: used, ...finality } };
    } catch (error) {
      if (error instanceof UnprovableError) return error.message;
      if (!(error instanceof NodeError)) throw error;
      if (error.isProvedWrong) void wrongNodes.search(run, hash);
      // The next read must not get the same answers from the cache.
      if (error.isProvedWrong) for (const each of called.splice(0)) ledger.forget(...each);
      reason = error.message;
    }
  }
  return reason;
}

/** Calls any node, with the cache and the retries of the ledger. `called`: gets each call. */
function throughLedger(ledger: Ledger, called: [LedgerMethod, Buffer][]): HeadNode {
  return headNode({
    name: "any",
    call(name, text) {
      const call: [LedgerMethod, Buffer] = [ledger.internal(name), Buffer.from(text)];
      called.push(call);
      return ledger.call(...call);
    },
  });
}
