import type { Tool, ToolContext, ToolResult } from "sluice-gateway/services";
import { decodedAt, findBlock, type BlockInput } from "./block.ts";
import { blockHashFault, hexSchema, readsChain } from "./tool-defaults.ts";
import { decodeFailureOf, type Chain } from "./node.ts";

// The schema does not state that exactly one of the two is required, because agents do not support `oneOf` at the root.
const blockInput = {
  type: "object",
  properties: {
    height: {
      type: "integer",
      minimum: 0,
      description: "Height of the block. Give either height or hash.",
    },
    hash: hexSchema("Hash of the block: 0x and 64 hex digits. Give either this or height."),
  },
};

interface EventsInput {
  readonly blockHash: string;
}

export function blockTools(chain: Chain): Tool<never>[] {
  const getBlock: Tool<BlockInput> = {
    name: "ledger_getBlock",
    description:
      "Gets a block by height or hash, with its header and its extrinsics as hex. Give exactly one of height and hash.",
    inputSchema: blockInput,
    price: 1000,
    ...readsChain("Block"),
    async call(input, context) {
      const found = await findBlock(chain, input, context);
      return found.ok ? { ok: true, json: `{"block":${found.json}}` } : found;
    },
  };
  const getBlockDecoded: Tool<BlockInput> = {
    name: "ledger_getBlockDecoded",
    description:
      "Gets a block by height or hash with its extrinsics decoded to pallet and method, and its events. Arguments and event data stay SCALE-encoded hex. Give exactly one of height and hash.",
    inputSchema: blockInput,
    price: 2000,
    ...readsChain("Decoded block"),
    call: (input, context) => decodedBlock(chain, input, context),
  };
  const getEvents: Tool<EventsInput> = {
    name: "ledger_getEvents",
    description:
      "Gets the events of a block, each with its phase (such as ApplyExtrinsic(2)), pallet, name and SCALE-encoded data.",
    inputSchema: {
      type: "object",
      required: ["blockHash"],
      properties: { blockHash: hexSchema("Hash of the block: 0x and 64 hex digits.") },
    },
    price: 1500,
    ...readsChain("Events of a block"),
    call: ({ blockHash }, context) => eventsOf(chain, blockHash, context),
  };
  return [getBlock, getBlockDecoded, getEvents];
}

async function decodedBlock(
  chain: Chain,
  input: BlockInput,
  context: ToolContext,
): Promise<ToolResult> {
  const found = await findBlock(chain, input, context);
  if (!found.ok) return found;
  const { decoder } = chain;
  const { bytes, hash, json } = found;
  const [extrinsics, events] = await Promise.all([
    decoder.extrinsics(bytes, hash, context),
    decoder.events(hash, context),
  ]);
  if (!extrinsics.ok) return decodeFailureOf(extrinsics, "known");
  if (!events.ok) return decodeFailureOf(events, "known");
  return {
    ok: true,
    json: `{"block":${json},"decodedExtrinsics":${extrinsics.json},"events":${events.json}}`,
  };
}

async function eventsOf(
  chain: Chain,
  blockHash: string,
  context: ToolContext,
): Promise<ToolResult> {
  const fault = blockHashFault("blockHash", blockHash);
  if (fault !== undefined) return fault;
  const hash = blockHash.toLowerCase();
  const events = await chain.decoder.events(hash, context);
  // Only the genesis block has no events.
  return decodedAt(chain, hash, events, { isEmpty: (json) => json === "[]", context });
}
