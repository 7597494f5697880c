import { BoundedMap, isAbsent } from "sluice-gateway/internal/toolkit";
import { FinalizedChain, type Checkpoint } from "../proofs/finalized-chain.ts";
import { readHeader, type Header } from "../proofs/header.ts";
import { readJustification } from "../proofs/justification.ts";
import { finalizedHead, headerOf, NodeError, nodeRefusal, type HeadNode } from "../proofs/node.ts";
import { bytesOf, readScale } from "../proofs/scale.ts";
import { isProvable, provableRead } from "../reads/provable-reads.ts";
import { UnprovableError, type ProvableRead } from "../reads/read.ts";
import { RpcError, type RawAnswer } from "./rpc-socket.ts";

/** Calls the gateway without verifying anything. Rejects with an RpcError. */
type RawCall = (method: string, params: readonly unknown[]) => Promise<RawAnswer>;

/** Number of hashes that are kept of blocks whose answers had a justification. */
const maxKept = 4_096;
/** Reads of the state that the client cannot verify. Those that it can verify are in `reads/`. */
const otherStateReads =
  /^(childstate_|state_(get(Keys|Pairs|Storage)|query|subscribeStorage)|archive_v1_storage)/;
/** Their params and results are bound to each other by the hash of the block, so they are also right before it is final. */
const boundByHash: ReadonlySet<string> = new Set(["chain_getHeader", "archive_v1_header"]);

export function notProved(reason: string): RpcError {
  return new RpcError(-32052, "Not Proved", { reason });
}

export class VerifiedReads {
  readonly #raw: RawCall;
  readonly #chain: FinalizedChain;
  readonly #node: HeadNode;
  readonly #justified = new BoundedMap<string, true>(maxKept);
  #following: Promise<void> | undefined;

  /** Throws an Error if the authorities of the checkpoint have no weight. */
  constructor(checkpoint: Checkpoint, raw: RawCall) {
    this.#raw = raw;
    this.#chain = new FinalizedChain(checkpoint);
    this.#node = {
      name: "gateway",
      async call(method, params) {
        try {
          return (await raw(method, params)).result;
        } catch (error) {
          throw error instanceof RpcError ? nodeRefusal(method, error.code) : error;
        }
      },
    };
  }

  /**
   * Returns the result of a call. A read without a block is made at the finalized head. Rejects with an RpcError, among
   * others if the answer has a proof and is not proved.
   */
  async call(method: string, params: readonly unknown[]): Promise<unknown> {
    const read = provableRead(method, JSON.stringify(params));
    // No checkpoint proves the genesis block. It is a constant, as in `chainSpec_v1_genesisHash`.
    if (read?.block === 0) return (await this.#raw(method, params)).result;
    if (read !== undefined) return await asRpcError(() => this.#read(method, params, read));
    if (isProvable(method) || otherStateReads.test(method))
      throw notProved("the client cannot verify this call");
    return (await this.#raw(method, params)).result;
  }

  /** Resolves to true if the block is proved to be finalized. Rejects with an RpcError. */
  async isFinalized(hash: string, proof: RawAnswer["proof"] = {}): Promise<boolean> {
    if (this.#chain.has(hash) || this.#justified.has(hash)) return true;
    if (await this.#isJustified(hash, proof)) return true;
    await asRpcError(() => this.#follow());
    return this.#chain.has(hash) || (await this.#isJustified(hash, proof));
  }

  /**
   * Resolves to true if the last block is proved to be finalized, and each of the others is the parent of the next one.
   * Rejects with an RpcError.
   */
  async areFinalized(hashes: readonly string[]): Promise<boolean> {
    if (!(await this.isFinalized(hashes.at(-1) ?? ""))) return false;
    const headers = await asRpcError(() =>
      Promise.all(hashes.slice(1).map((hash) => headerOf(this.#node, hash))),
    );
    return headers.every(({ parentHash }, index) => parentHash === hashes[index]);
  }

  async #read(method: string, params: readonly unknown[], read: ProvableRead): Promise<unknown> {
    const { block, run } = read;
    if (typeof block === "string") return await this.#readAt(method, params, block, run);
    if (block === undefined || this.#chain.hashAt(block) === undefined) await this.#follow();
    const hash = block === undefined ? this.#chain.hash : this.#chain.hashAt(block);
    if (hash === undefined) throw notProved("the block with this number is not proved");
    const named = block === undefined ? paramsAt(method, params, hash) : undefined;
    if (named !== undefined) return await this.#readAt(method, named, hash, run);
    const { result } = await run({ node: this.#node, hash, header: () => this.#header(hash) });
    return JSON.parse(result);
  }

  async #readAt(
    method: string,
    params: readonly unknown[],
    hash: string,
    run: ProvableRead["run"],
  ): Promise<unknown> {
    const answer = await this.#raw(method, params);
    const { nodes } = answer.proof;
    const node: HeadNode = {
      name: "gateway",
      call: (asked) =>
        Promise.resolve(asked.endsWith("ReadProof") ? { proof: nodes } : answer.result),
    };
    const header = async (): Promise<Header> => {
      const [found] = headersIn(answer.proof);
      if (found?.hash === hash) return found;
      throw notProved("the answer has no header with the hash of the block");
    };
    const { result } = await run({ node, hash, header });
    if (!boundByHash.has(method) && !(await this.isFinalized(hash, answer.proof)))
      throw notProved("the block is not proved to be finalized");
    return JSON.parse(result);
  }

  async #header(hash: string): Promise<Header> {
    const { result } = await this.#raw("archive_v1_header", [hash]);
    const header = headersIn({ headers: [result] })[0];
    if (header?.hash === hash) return header;
    throw notProved("the answer is not the header with this hash");
  }

  async #isJustified(hash: string, proof: RawAnswer["proof"]): Promise<boolean> {
    const bytes = bytesOf(proof["justification"]);
    const justification = bytes && readScale(bytes, readJustification);
    const headers = headersIn(proof);
    if (justification === undefined || headers[0]?.hash !== hash) return false;
    if ((await this.#chain.refusalOf(justification, headers)) !== undefined) return false;
    for (const header of headers) this.#justified.set(header.hash, true);
    return true;
  }

  async #follow(): Promise<void> {
    this.#following ??= this.#followOnce().finally(() => (this.#following = undefined));
    await this.#following;
  }

  async #followOnce(): Promise<void> {
    const { number } = await finalizedHead(this.#node);
    await this.#chain.follow(this.#node, number);
  }
}

/** Returns the params with the hash of the block. Undefined if the method has no such param. */
function paramsAt(
  method: string,
  params: readonly unknown[],
  hash: string,
): readonly unknown[] | undefined {
  const given = params.slice(0, 1 + params.findLastIndex((param) => !isAbsent(param)));
  // A page of keys has four params, with another one for a child trie.
  for (let length = given.length; length < 5; length++) {
    const absent = Array.from({ length: length - given.length }, () => null);
    const named = [...given, ...absent, hash];
    if (provableRead(method, JSON.stringify(named))?.block === hash) return named;
  }
  return undefined;
}

function headersIn({ headers }: RawAnswer["proof"]): readonly Header[] {
  const list: readonly unknown[] = Array.isArray(headers) ? headers : [];
  return list.flatMap((text) => {
    const bytes = bytesOf(text);
    return (bytes && readScale(bytes, readHeader)) ?? [];
  });
}

async function asRpcError<T>(task: () => Promise<T>): Promise<T> {
  try {
    return await task();
  } catch (error) {
    if (error instanceof NodeError || error instanceof UnprovableError)
      throw notProved(error.message);
    throw error;
  }
}
