import {
  toolFailure,
  type DecodedJson,
  type ToolContext,
  type ToolFailure,
  type ToolResult,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { isHash } from "../ledger/decode/call-node.ts";
import { memberAt } from "../ledger/json-part.ts";
import {
  callMethod,
  callForValue,
  decodeFailureOf,
  failureOf,
  unreadableAnswer,
  unknownBlock,
  type Chain,
} from "./node.ts";
import { blockHashFault } from "./tool-defaults.ts";

export interface BlockInput {
  readonly height?: number;
  readonly hash?: string;
}

export interface FoundBlock {
  readonly ok: true;
  readonly hash: string;
  /** The node's result of `chain_getBlock`. The memory is borrowed. */
  readonly bytes: Buffer;
  /** `{ header, extrinsics }` as JSON text, without justifications. The extrinsics are the node's unchanged text. */
  readonly json: string;
}

/** Block numbers have 32 bits. A node answers larger ones with an error instead of null. */
const maxHeight = 2 ** 32 - 1;

const heightXorHash = toolFailure(
  "GATEWAY_INVALID_PARAMS",
  "give either the height or the hash of a block",
);

export async function findBlock(
  chain: Chain,
  { height, hash }: BlockInput,
  context: ToolContext,
): Promise<FoundBlock | ToolFailure> {
  if ((height === undefined) === (hash === undefined)) return heightXorHash;
  const fault = blockHashFault("hash", hash);
  if (fault !== undefined) return fault;
  if (hash !== undefined) return blockAt(chain, hash.toLowerCase(), context, "given");
  const found = await hashAt(chain, height ?? 0, context);
  return typeof found === "string" ? blockAt(chain, found, context, "node's") : found;
}

async function hashAt(
  chain: Chain,
  height: number,
  context: ToolContext,
): Promise<string | ToolFailure> {
  if (height > maxHeight) return unknownBlock;
  const reply = await callForValue(chain, "chain_getBlockHash", `[${height}]`, context);
  if (!reply.ok) return reply;
  if (reply.value === null) return unknownBlock;
  return isHash(reply.value) ? reply.value : unreadableAnswer;
}

async function blockAt(
  chain: Chain,
  hash: string,
  context: ToolContext,
  hashSource: "given" | "node's",
): Promise<FoundBlock | ToolFailure> {
  const answer = await callMethod(chain, "chain_getBlock", `["${hash}"]`, context);
  if (answer.kind !== "result") return failureOf(answer);
  const { bytes } = answer;
  if (bytes.toString("latin1", 0, 5) === "null") return unknownBlock;
  const header = readHeader(parseOrUndefined(memberAt(bytes, ["block", "header"])));
  const extrinsics = memberAt(bytes, ["block", "extrinsics"]);
  if (header === undefined || extrinsics?.startsWith("[") !== true) return unreadableAnswer;
  if (hashSource === "given" && header.height === 0) {
    const wrong = await genesisFault(chain, hash, context);
    if (wrong !== undefined) return wrong;
  }
  return {
    ok: true,
    hash,
    bytes,
    json: `{"header":${header.json},"extrinsics":${extrinsics}}`,
  };
}

/** Reads a header in the form of the specification. `number` is the node's text, which may have leading zeros. */
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
 * Returns a failure if no block has this hash, or undefined if the block exists. Needed because nodes answer some calls
 * for an unknown hash as if the block were empty.
 */
export async function unknownFault(
  chain: Chain,
  hash: string,
  context: ToolContext,
): Promise<ToolFailure | undefined> {
  const reply = await callForValue(chain, "chain_getHeader", `["${hash}"]`, context);
  if (!reply.ok) return reply;
  if (reply.value === null) return unknownBlock;
  const height = numberOf(reply.value);
  if (height === undefined) return unreadableAnswer;
  return height === 0 ? genesisFault(chain, hash, context) : undefined;
}

/** `isEmpty`: true for a value that is more likely to mean that the block does not exist. */
export async function decodedAt(
  chain: Chain,
  hash: string,
  decoded: DecodedJson,
  read: { readonly isEmpty: (json: string) => boolean; readonly context: ToolContext },
): Promise<ToolResult> {
  if (decoded.ok && !read.isEmpty(decoded.json)) return decoded;
  const unknown = await unknownFault(chain, hash, read.context);
  if (unknown?.code === "GATEWAY_NOT_FOUND") return unknown;
  if (decoded.ok) return decoded;
  return decodeFailureOf(decoded, unknown === undefined ? "known" : undefined);
}

/**
 * Returns a failure unless `hash` is that of the genesis block. Needed because some nodes (chopsticks) answer an
 * unknown hash with the genesis block.
 */
async function genesisFault(
  chain: Chain,
  hash: string,
  context: ToolContext,
): Promise<ToolFailure | undefined> {
  const genesis = await genesisHash(chain, context);
  if (typeof genesis !== "string") return genesis;
  return genesis.toLowerCase() === hash.toLowerCase() ? undefined : unknownBlock;
}

/**
 * Returns the parent hash of block 1. The hash of block 0 is not reliable: after a call with an unknown hash,
 * chopsticks returns that hash for block 0.
 */
async function genesisHash(chain: Chain, context: ToolContext): Promise<string | ToolFailure> {
  const first = await hashAt(chain, 1, context);
  if (first === unknownBlock) return hashAt(chain, 0, context);
  if (typeof first !== "string") return first;
  const reply = await callForValue(chain, "chain_getHeader", `["${first}"]`, context);
  if (!reply.ok) return reply;
  const parent = isObject(reply.value) ? reply.value["parentHash"] : undefined;
  return isText(parent) ? parent : unreadableAnswer;
}

export function numberOf(header: unknown): number | undefined {
  if (!isObject(header)) return undefined;
  const { number } = header;
  if (typeof number !== "string" || !/^0x[0-9a-f]{1,16}$/i.test(number)) return undefined;
  const height = Number(number);
  return Number.isSafeInteger(height) ? height : undefined;
}
