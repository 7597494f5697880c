/**
 * The state of the relay chain at a finalized block has the head of each parachain, which is finalized with that block.
 * The hashes of the parents prove the blocks below it.
 */
import { xxhash64 } from "hash-wasm";
import { provableRead } from "../reads/provable-reads.ts";
import { UnprovableError } from "../reads/read.ts";
import { readHeader, type Header } from "./header.ts";
import { headerOf, NodeError, type HeadNode } from "./node.ts";
import { ProvedHashes, type FinalityOfBlock, type ProvedChain } from "./proved-chain.ts";
import { bytesOf, readScale, ScaleReader } from "./scale.ts";

export interface Relay {
  readonly chain: ProvedChain;
  readonly nodes: readonly HeadNode[];
  /** Proves the present finalized head. Never rejects. */
  refresh(): Promise<void>;
}

/** The hashes of `Paras` and `Heads` (twox 128). */
const headsPrefix = "0xcd710b30bd2eab0352ddcc26417aa1941b3c252fcb29d88eff4f3de5de4476c3";
/** Maximum number of blocks between two heads whose headers are read. */
const maxBlocks = 1_024;

export class RelayedChain implements ProvedChain {
  number = 0;
  hash: string | undefined;
  readonly isConfirmed = true;
  readonly #relay: Relay;
  readonly #key: Promise<string>;
  readonly #proved = new ProvedHashes();

  constructor(relay: Relay, id: number) {
    this.#relay = relay;
    this.#key = headKey(id);
  }

  hashAt(number: number): string | undefined {
    return this.#proved.at(number);
  }

  has(hash: string): boolean {
    return this.#proved.has(hash);
  }

  /** A client would need a proof of the relay chain. */
  proofOf(): FinalityOfBlock | undefined {
    return undefined;
  }

  async follow(node: HeadNode): Promise<void> {
    await this.#relay.refresh();
    const head = await this.#head();
    if (head.hash === this.hash) return;
    const headers = [head];
    let first = head;
    if (head.number > this.number + maxBlocks || this.hash === undefined) this.#proved.clear();
    else {
      for (let blocks = 0; first.number > this.number + 1 && blocks < maxBlocks; blocks++)
        headers.unshift((first = await headerOf(node, first.parentHash)));
      // Only if the relay chain has moved the head back.
      if (first.parentHash !== this.hash) this.#proved.clear();
    }
    for (const { number, hash } of headers) this.#proved.add(number, hash);
    this.number = head.number;
    this.hash = head.hash;
  }

  /** Reads the head from the state of the relay chain at its proved head. Throws a NodeError. */
  async #head(): Promise<Header> {
    const { hash } = this.#relay.chain;
    if (hash === undefined) throw new NodeError("no block of the relay chain is proved");
    const read = provableRead("state_getStorage", JSON.stringify([await this.#key, hash]));
    let failure = new NodeError("the relay chain has no nodes");
    for (const node of this.#relay.nodes) {
      try {
        const source = { node, hash, header: () => headerOf(node, hash) };
        const value: unknown = JSON.parse((await read?.run(source))?.result ?? "null");
        return headIn(value);
      } catch (error) {
        if (!(error instanceof NodeError || error instanceof UnprovableError)) throw error;
        failure = new NodeError(`relay chain: ${error.message}`);
      }
    }
    throw failure;
  }
}

/** Returns the header in `Paras.Heads`, which is a list of bytes. Throws a NodeError. */
function headIn(value: unknown): Header {
  if (value === null) throw new NodeError("it has no parachain with this id");
  const bytes = bytesOf(value);
  const head = bytes && readScale(bytes, (reader) => readWhole(reader.prefixed()));
  if (head === undefined) throw new NodeError("the head of the parachain is no header");
  return head;
}

function readWhole(bytes: Uint8Array): Header | undefined {
  const reader = new ScaleReader(bytes);
  const header = readHeader(reader);
  return reader.left === 0 ? header : undefined;
}

/** Returns the key of `Paras.Heads` (a map with the hasher `Twox64Concat`) for this id. */
async function headKey(id: number): Promise<string> {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(id);
  // hash-wasm writes the number with its highest byte first.
  const hash = Buffer.from(await xxhash64(bytes), "hex").toReversed();
  return headsPrefix + Buffer.concat([hash, bytes]).toString("hex");
}
