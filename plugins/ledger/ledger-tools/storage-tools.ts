import {
  toolFailure,
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolResult,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { unknownFault } from "./block.ts";
import { blockHashFault, hexFault, hexSchema, readsChain } from "./tool-defaults.ts";
import { callMethod, failureOf, unreadableAnswer, type Chain } from "./node.ts";

/** gateway.md, "Per-call and per-request limits". */
const maxKeys = 100;
const keyMilliCu = 200;
/**
 * Maximum length of all values of a result in characters. The answer of a node with distinct keys is shorter, because
 * nodes limit it to 15 MiB. Keys that are given several times could make the result a hundred times as long.
 */
const maxValueChars = 16 * 1_048_576;

const blockHash = hexSchema("Read at this block: 0x and 64 hex digits. Default: the best block.");

interface StorageInput {
  readonly key: string;
  readonly blockHash?: string;
}

interface QueryInput {
  readonly keys: readonly string[];
  readonly blockHash?: string;
}

export function storageTools(chain: Chain): Tool<never>[] {
  const getStorage: Tool<StorageInput> = {
    name: "ledger_getStorage",
    description: "Gets the raw storage value under a key, or null if there is none.",
    inputSchema: {
      type: "object",
      required: ["key"],
      properties: { key: hexSchema("The storage key, 0x-prefixed hex."), blockHash },
    },
    price: keyMilliCu,
    ...readsChain("Storage value"),
    call: (input, context) => storageValue(chain, input, context),
  };
  const queryStorage: Tool<QueryInput> = {
    name: "ledger_queryStorage",
    description:
      "Gets the raw storage values under many keys (at most 100) at one block, in the order of the keys.",
    inputSchema: {
      type: "object",
      required: ["keys"],
      properties: {
        keys: {
          type: "array",
          minItems: 1,
          maxItems: maxKeys,
          items: hexSchema("A storage key, 0x-prefixed hex."),
          description: "The storage keys. Each costs 0.2 CU.",
        },
        blockHash,
      },
    },
    price: { estimateMilliCu: keyMilliCu, of: ({ keys }: QueryInput) => keys.length * keyMilliCu },
    ...readsChain("Storage values"),
    call: (input, context) => storageValues(chain, input, context),
  };
  return [getStorage, queryStorage];
}

async function storageValue(
  chain: Chain,
  { key, blockHash: at }: StorageInput,
  context: ToolContext,
): Promise<ToolResult> {
  const fault = hexFault("key", key) ?? blockHashFault("blockHash", at);
  if (fault !== undefined) return fault;
  const answer = await callMethod(chain, "state_getStorage", paramsOf(`"${key}"`, at), context);
  const value = answer.kind === "result" ? answer.bytes.toString() : undefined;
  if (value === undefined || value === "null") {
    const unknown = await blockFault(chain, at, context);
    if (unknown !== undefined) return unknown;
  }
  if (answer.kind !== "result") return failureOf(answer);
  if (value !== "null" && value?.startsWith('"0x') !== true) return unreadableAnswer;
  return { ok: true, json: `{"key":"${key}","value":${value}}` };
}

async function storageValues(
  chain: Chain,
  { keys, blockHash: at }: QueryInput,
  context: ToolContext,
): Promise<ToolResult> {
  const fault = keyFault(keys) ?? blockHashFault("blockHash", at);
  if (fault !== undefined) return fault;
  const params = paramsOf(JSON.stringify(distinctKeys(keys)), at);
  const answer = await callMethod(chain, "state_queryStorageAt", params, context);
  const read =
    answer.kind === "result" ? readChanges(parseOrUndefined(answer.bytes.toString())) : undefined;
  if (read === undefined || read.empty) {
    const unknown = await blockFault(chain, at, context);
    if (unknown !== undefined) return unknown;
  }
  if (answer.kind !== "result") return failureOf(answer);
  if (read === undefined) return unreadableAnswer;
  // Nodes may change the case of keys. The caller gets its keys back unchanged.
  const items = keys.map((key) => ({ key, value: read.values.get(key.toLowerCase()) ?? null }));
  const chars = items.reduce((sum, { value }) => sum + (value?.length ?? 0), 0);
  if (chars > maxValueChars) return tooManyValues;
  return { ok: true, value: { items, blockHash: read.block } };
}

const tooManyValues: ToolFailure = {
  ...toolFailure("GATEWAY_TOOL_EXECUTION_ERROR", "the values are too large together"),
  isCharged: true,
};

function distinctKeys(keys: readonly string[]): string[] {
  const distinct = new Map<string, string>();
  for (const key of keys)
    if (!distinct.has(key.toLowerCase())) distinct.set(key.toLowerCase(), key);
  return [...distinct.values()];
}

function keyFault(keys: readonly string[]): ToolFailure | undefined {
  const faults = keys.map((key, index) => hexFault(`keys/${index}`, key));
  return faults.find((fault) => fault !== undefined);
}

/** `first`: JSON text that has been checked. */
function paramsOf(first: string, at: string | undefined): string {
  return at === undefined ? `[${first}]` : `[${first},"${at.toLowerCase()}"]`;
}

/**
 * Called if nothing was found at a block, because nodes answer a read at an unknown block with an error, chopsticks
 * with null. Returns a failure if the block does not exist.
 */
async function blockFault(
  chain: Chain,
  at: string | undefined,
  context: ToolContext,
): Promise<ToolFailure | undefined> {
  const fault = at === undefined ? undefined : await unknownFault(chain, at.toLowerCase(), context);
  return fault?.code === "GATEWAY_NOT_FOUND" ? fault : undefined;
}

interface Changes {
  readonly block: string;
  readonly values: ReadonlyMap<string, string>;
  readonly empty: boolean;
}

/** Reads `[{ block, changes: [[key, value or null], …] }]`, which has one element because one block was requested. */
function readChanges(result: unknown): Changes | undefined {
  const set: unknown = Array.isArray(result) ? (result as unknown[])[0] : undefined;
  if (!isObject(set)) return undefined;
  const { block, changes } = set;
  if (typeof block !== "string" || !Array.isArray(changes)) return undefined;
  const values = new Map<string, string>();
  for (const change of changes as unknown[]) {
    if (!Array.isArray(change)) return undefined;
    const [key, value] = change as unknown[];
    if (typeof key !== "string") return undefined;
    if (typeof value === "string") values.set(key.toLowerCase(), value);
    else if (value !== null) return undefined;
  }
  return { block, values, empty: values.size === 0 };
}
