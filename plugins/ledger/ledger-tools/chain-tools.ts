import type { Tool, ToolContext, ToolFailure, ToolResult } from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { numberOf } from "./block.ts";
import { memberAt } from "../ledger/json-part.ts";
import { noInput, readsChain } from "./tool-defaults.ts";
import { callMethod, callForValue, failureOf, unreadableAnswer, type Chain } from "./node.ts";

/** decisions.md section 6. */
const defaultSs58Format = 42;

export function chainTools(chain: Chain): Tool<never>[] {
  const getHealth: Tool<object> = {
    name: "ledger_getHealth",
    description: "Returns the number of peers of the node, and whether it is still syncing.",
    inputSchema: noInput,
    price: 100,
    ...readsChain("Node health"),
    async call(_, context) {
      const reply = await healthOf(chain, context);
      return reply.ok ? { ok: true, value: reply.value } : reply;
    },
  };
  const getNodeInfo: Tool<object> = {
    name: "ledger_getNodeInfo",
    description: "Returns the name of the chain, and the name and version of the node software.",
    inputSchema: noInput,
    price: 100,
    ...readsChain("Node information"),
    call: (_, context) => nodeInfo(chain, context),
  };
  const getChainStats: Tool<object> = {
    name: "ledger_getChainStats",
    description:
      "Returns in one call: the name and type of the chain, its latest and its finalized block, the health of the node, and the symbol and decimals of the token.",
    inputSchema: noInput,
    price: 500,
    ...readsChain("Chain statistics"),
    call: (_, context) => chainStats(chain, context),
  };
  return [getHealth, getNodeInfo, getChainStats];
}

type ReadResult<T> = { readonly ok: true; readonly value: T } | ToolFailure;

/** `read`: returns undefined for a result that it cannot read. */
async function callAndRead<T>(
  chain: Chain,
  method: string,
  params: string,
  context: ToolContext,
  read: (value: unknown) => T | undefined,
): Promise<ReadResult<T>> {
  const reply = await callForValue(chain, method, params, context);
  if (!reply.ok) return reply;
  const value = read(reply.value);
  return value === undefined ? unreadableAnswer : { ok: true, value };
}

const readText = (value: unknown): string | undefined =>
  typeof value === "string" ? value : undefined;

interface Health {
  readonly peers: number;
  readonly isSyncing: boolean;
  readonly shouldHavePeers: boolean;
}

function readHealth(value: unknown): Health | undefined {
  if (!isObject(value)) return undefined;
  const { peers, isSyncing, shouldHavePeers } = value;
  return Number.isSafeInteger(peers) &&
    typeof isSyncing === "boolean" &&
    typeof shouldHavePeers === "boolean"
    ? { peers: Number(peers), isSyncing, shouldHavePeers }
    : undefined;
}

const healthOf = (chain: Chain, context: ToolContext): Promise<ReadResult<Health>> =>
  callAndRead(chain, "system_health", "", context, readHealth);

/** Waits for all reads. Returns the first failure, or an object with all values. */
async function readAll<T extends object>(reads: {
  readonly [Name in keyof T]: Promise<ReadResult<T[Name]>>;
}): Promise<ReadResult<T>> {
  const values: [string, unknown][] = [];
  const pending: [string, Promise<ReadResult<unknown>>][] = Object.entries(reads);
  await Promise.all(pending.map(([, read]) => read));
  for (const [name, read] of pending) {
    const result = await read;
    if (!result.ok) return result;
    values.push([name, result.value]);
  }
  // The names and the values are those of the reads.
  return { ok: true, value: Object.fromEntries(values) as T };
}

function nodeInfo(chain: Chain, context: ToolContext): Promise<ToolResult> {
  return readAll({
    chain: callAndRead(chain, "system_chain", "", context, readText),
    name: callAndRead(chain, "system_name", "", context, readText),
    version: callAndRead(chain, "system_version", "", context, readText),
  });
}

async function chainStats(chain: Chain, context: ToolContext): Promise<ToolResult> {
  const read = await readAll({
    chain: callAndRead(chain, "system_chain", "", context, readText),
    chainType: callAndRead(chain, "system_chainType", "", context, readChainType),
    blocks: readHeads(chain, context),
    health: healthOf(chain, context),
    properties: propertiesOf(chain, context),
  });
  if (!read.ok) return read;
  const { chain: name, chainType, blocks, health, properties } = read.value;
  return { ok: true, value: { chain: name, chainType, ...blocks, health, properties } };
}

/** Reads `"Live"`, or `{ "Custom": "x" }`, of which the only key is returned. */
function readChainType(value: unknown): string | undefined {
  return isObject(value) ? Object.keys(value)[0] : readText(value);
}

/** The latest block is not older than the finalized one, although it may come from a node that is a little behind. */
async function readHeads(chain: Chain, context: ToolContext) {
  const finalized = await callAndRead(chain, "chain_getFinalizedHead", "", context, readHash);
  if (!finalized.ok) return finalized;
  const at = `["${finalized.value}"]`;
  const numbers = await readAll({
    finalizedNumber: callAndRead(chain, "chain_getHeader", at, context, numberOf),
    latestNumber: callAndRead(chain, "chain_getHeader", "", context, numberOf),
  });
  if (!numbers.ok) return numbers;
  const { finalizedNumber, latestNumber } = numbers.value;
  return {
    ok: true,
    value: {
      finalizedHash: finalized.value,
      finalizedNumber,
      latestNumber: Math.max(finalizedNumber, latestNumber),
    },
  } as const;
}

function readHash(value: unknown): string | undefined {
  return typeof value === "string" && /^0x[0-9a-f]+$/i.test(value) ? value : undefined;
}

interface Properties {
  readonly tokenDecimals: number;
  readonly tokenSymbol: string;
  readonly ss58Format: number;
  readonly isEthereum: boolean;
}

/** Parses only four members, because a chain may include its whole genesis in its properties (436 KB on Midnight). */
async function propertiesOf(chain: Chain, context: ToolContext): Promise<ReadResult<Properties>> {
  const answer = await callMethod(chain, "system_properties", "", context);
  if (answer.kind !== "result") return failureOf(answer);
  const { bytes } = answer;
  const start = bytes.toString("latin1", 0, 5);
  if (!start.startsWith("{") && start !== "null") return unreadableAnswer;
  const read = (name: string): unknown => parseOrUndefined(memberAt(bytes, [name]));
  const symbol = firstOf(read("tokenSymbol"));
  return {
    ok: true,
    value: {
      tokenDecimals: count(firstOf(read("tokenDecimals"))) ?? 0,
      tokenSymbol: typeof symbol === "string" ? symbol : "",
      ss58Format: count(read("ss58Format")) ?? defaultSs58Format,
      isEthereum: read("isEthereum") === true,
    },
  };
}

/** Chains with several tokens return a list that starts with their native token. */
function firstOf(value: unknown): unknown {
  return Array.isArray(value) ? (value as unknown[])[0] : value;
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
