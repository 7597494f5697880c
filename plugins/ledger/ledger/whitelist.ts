import type { LedgerMethod } from "sluice-gateway/services";
import type { PoolConfig } from "./options.ts";
import {
  isFinalizedHead,
  knownMethods,
  nodeNames,
  unknownMethod,
  type KnownMethod,
  type Lifetime,
} from "./methods.ts";
import { isOverWebSocket, submitMethod, submitMilliCu } from "./websocket-methods.ts";

export interface Method extends LedgerMethod {
  readonly nodeName: string;
  readonly lifetime: Lifetime;
  /** 0-based index of the method's own block hash among its params, or -1. */
  readonly hashParam: number;
  readonly cheap: boolean;
  readonly retry: boolean;
  /** True if an answer can be immutable and may then be cached. */
  readonly isCacheable: boolean;
  /** True if identical calls in flight may share one answer. */
  readonly isShareable: boolean;
  readonly quorum: number;
  /** The gateway's own answer as JSON text. Undefined if a node answers the method. */
  readonly gatewayAnswer: string | undefined;
}

/** Only `ledger-ws` with `write: true`, and the gateway itself, call this method. */
const submission: KnownMethod = {
  params: ["extrinsic"],
  cuMilli: submitMilliCu,
  lifetime: "write",
};

/**
 * The option `methods` removes methods (`false`), adds them or changes their price. A method that is not in the table
 * is treated as one that writes: its answers are not cached or shared, and it is never sent twice.
 */
export function createWhitelist(
  config: Pick<PoolConfig, "aliases" | "methods">,
): ReadonlyMap<string, Method> {
  const names = new Set<string>();
  for (const [name, known] of knownMethods) if (known.optional !== true) names.add(name);
  for (const [name, change] of Object.entries(config.methods)) {
    if (change === false || isOverWebSocket(name)) names.delete(name);
    else names.add(name);
  }
  const methodList = methodListOf(names);
  const whitelist = new Map<string, Method>();
  for (const name of names) whitelist.set(name, createMethod(name, config, methodList));
  return whitelist;
}

export function methodListOf(names: Iterable<string>): string {
  return JSON.stringify({ methods: [...names].toSorted() });
}

/** The node's own list would name methods that the gateway refuses. */
export const listMethod = "rpc_methods";

/**
 * The methods that the gateway may call but clients may not: known methods that are disabled or were removed from the
 * whitelist, and the one that submits what a client has confirmed.
 */
export function createInternal(
  config: Pick<PoolConfig, "aliases" | "methods">,
  whitelist: ReadonlyMap<string, Method>,
): ReadonlyMap<string, Method> {
  const internal = new Map<string, Method>();
  for (const name of [...knownMethods.keys(), submitMethod]) {
    if (name === listMethod || whitelist.has(name)) continue;
    internal.set(name, createMethod(name, config, ""));
  }
  return internal;
}

function createMethod(
  name: string,
  config: Pick<PoolConfig, "aliases" | "methods">,
  methodList: string,
): Method {
  const known = name === submitMethod ? submission : (knownMethods.get(name) ?? unknownMethod);
  const change = config.methods[name];
  const rule = change === false ? {} : (change ?? {});
  const { cuMilli = known.cuMilli, params = known.params, quorum = 1 } = rule;
  const { lifetime } = known;
  return {
    name,
    params,
    cuMilli,
    nodeName: nodeNameOf(name, config.aliases),
    lifetime,
    hashParam: known.hashParam ?? -1,
    cheap: known.cheap ?? false,
    retry: lifetime !== "write",
    isCacheable: lifetime !== "write" && lifetime !== "personal" && lifetime !== "moving",
    isShareable: lifetime !== "write" && lifetime !== "personal",
    // A call that writes is never sent to a second node. The nodes need not agree on their finalized heads.
    quorum: lifetime === "write" || isFinalizedHead(name) ? 1 : quorum,
    gatewayAnswer: name === listMethod ? methodList : undefined,
  };
}

/** The longest matching prefix wins, so the order of the aliases does not matter. */
function nodeNameOf(name: string, aliases: PoolConfig["aliases"]): string {
  const fixed = nodeNames.get(name);
  if (fixed !== undefined) return fixed;
  let prefix = "";
  for (const alias of Object.keys(aliases)) {
    if (alias.length > prefix.length && name.startsWith(alias)) prefix = alias;
  }
  return (aliases[prefix] ?? "") + name.slice(prefix.length);
}
