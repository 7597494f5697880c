/** Finds blocks: by height, by hash, and whether there is one at all. */
import { toolFailure, type ToolContext, type ToolFailure } from "sluice-gateway/plugin";
import { blockHashFault } from "./hex.ts";
import { membersOf, parsed } from "./json-text.ts";
import { ask, askValue, failureOf, isObject, nonsense, unknownBlock, type Chain } from "./node.ts";

export interface BlockInput {
  readonly height?: number;
  readonly hash?: string;
}

/** A block as the node has it. */
export interface FoundBlock {
  readonly ok: true;
  readonly hash: string;
  /** The node's `chain_getBlock` result; borrowed. */
  readonly bytes: Buffer;
  /** `{ header, extrinsics }` as JSON text: without justifications, the extrinsics as the node wrote them. */
  readonly json: string;
}

/** Block numbers have 32 bits; a node refuses larger ones with an error, not with null. */
const greatestHeight = 2 ** 32 - 1;

const eitherOr = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "give either the height or the hash of a block",
);

/** The block that an input names. */
export async function findBlock(
  chain: Chain,
  { height, hash }: BlockInput,
  context: ToolContext,
): Promise<FoundBlock | ToolFailure> {
  if ((height === undefined) === (hash === undefined)) return eitherOr;
  const fault = blockHashFault("hash", hash);
  if (fault !== undefined) return fault;
  if (hash !== undefined) return blockAt(chain, hash.toLowerCase(), context, "given");
  const found = await hashAt(chain, height ?? 0, context);
  return typeof found === "string" ? blockAt(chain, found, context, "node's") : found;
}

/** The hash of the block at a height. */
async function hashAt(
  chain: Chain,
  height: number,
  context: ToolContext,
): Promise<string | ToolFailure> {
  if (height > greatestHeight) return unknownBlock;
  const heard = await askValue(chain, "chain_getBlockHash", `[${height}]`, context);
  if (!heard.ok) return heard;
  if (heard.value === null) return unknownBlock;
  const { value } = heard;
  return typeof value === "string" && /^0x[0-9a-f]{64}$/i.test(value) ? value : nonsense;
}

async function blockAt(
  chain: Chain,
  hash: string,
  context: ToolContext,
  whose: "given" | "node's",
): Promise<FoundBlock | ToolFailure> {
  const answer = await ask(chain, "chain_getBlock", `["${hash}"]`, context);
  if (answer.kind !== "result") return failureOf(answer);
  const { bytes } = answer;
  const text = bytes.toString();
  if (text === "null") return unknownBlock;
  const block = membersOf(membersOf(text)?.get("block") ?? "");
  const header = readHeader(parsed(block?.get("header")));
  const extrinsics = block?.get("extrinsics");
  if (header === undefined || extrinsics?.startsWith("[") !== true) return nonsense;
  if (whose === "given" && header.height === 0) {
    const wrong = await notGenesis(chain, hash, context);
    if (wrong !== undefined) return wrong;
  }
  return {
    ok: true,
    hash,
    bytes,
    json: `{"header":${header.json},"extrinsics":${extrinsics}}`,
  };
}

/** A header in the specification's shape; `number` stays as the node writes it, which some do with leading zeros. */
function readHeader(
  value: unknown,
): { readonly json: string; readonly height: number } | undefined {
  if (!isObject(value)) return undefined;
  const { parentHash, number, stateRoot, extrinsicsRoot, digest } = value;
  const logs = isObject(digest) ? digest["logs"] : undefined;
  const texts = [parentHash, number, stateRoot, extrinsicsRoot];
  if (!Array.isArray(logs) || ![...texts, ...(logs as unknown[])].every(isText)) return undefined;
  const header = { parentHash, number, stateRoot, extrinsicsRoot, digest: { logs } };
  return { json: JSON.stringify(header), height: Number(number) };
}

const isText = (value: unknown): value is string => typeof value === "string";

/**
 * What speaks against a hash of which nothing is known: undefined where there is such a block. For what nodes answer to
 * an unknown hash as if it were one without content.
 */
export async function unknownFault(
  chain: Chain,
  hash: string,
  context: ToolContext,
): Promise<ToolFailure | undefined> {
  const heard = await askValue(chain, "chain_getHeader", `["${hash}"]`, context);
  if (!heard.ok) return heard;
  if (heard.value === null) return unknownBlock;
  const height = numberOf(heard.value);
  if (height === undefined) return nonsense;
  return height === 0 ? notGenesis(chain, hash, context) : undefined;
}

/** Some nodes (chopsticks) answer an unknown hash with the genesis block: what speaks against its being that hash. */
async function notGenesis(
  chain: Chain,
  hash: string,
  context: ToolContext,
): Promise<ToolFailure | undefined> {
  const genesis = await genesisHash(chain, context);
  if (typeof genesis !== "string") return genesis;
  return genesis.toLowerCase() === hash.toLowerCase() ? undefined : unknownBlock;
}

/** What block 1 names as its parent: having been asked for an unknown hash, chopsticks takes that for block 0's. */
async function genesisHash(chain: Chain, context: ToolContext): Promise<string | ToolFailure> {
  const first = await hashAt(chain, 1, context);
  if (first === unknownBlock) return hashAt(chain, 0, context);
  if (typeof first !== "string") return first;
  const heard = await askValue(chain, "chain_getHeader", `["${first}"]`, context);
  if (!heard.ok) return heard;
  const parent = isObject(heard.value) ? heard.value["parentHash"] : undefined;
  return isText(parent) ? parent : nonsense;
}

/** The height in a header. */
export function numberOf(header: unknown): number | undefined {
  if (!isObject(header)) return undefined;
  const { number } = header;
  if (typeof number !== "string" || !/^0x[0-9a-f]{1,16}$/i.test(number)) return undefined;
  const height = Number(number);
  return Number.isSafeInteger(height) ? height : undefined;
}
