/** A deployment's whitelist: the table of known methods with what pipeline.yaml changes of it. */
import type { PoolConfig } from "./options.ts";
import type { LedgerMethod } from "../../../src/services/ledger.ts";
import { knownMethods, nodeNames, unknownMethod, type Lifetime } from "./methods.ts";

/** A whitelisted method with all that the data path needs, looked up once by the client's name for it. */
export interface Method extends LedgerMethod {
  /** What the node calls it. */
  readonly nodeName: string;
  readonly lifetime: Lifetime;
  /** 0-based index of its own block hash among its params, or -1. */
  readonly hashParam: number;
  readonly cheap: boolean;
  /** Whether a node may be asked a second time. */
  readonly retry: boolean;
  /** Whether an answer may ever be kept. */
  readonly kept: boolean;
  /** Whether identical calls in flight may share one answer. */
  readonly shared: boolean;
  /** The gateway's own answer, JSON text; undefined: the node's affair. */
  readonly own: string | undefined;
}

/** The one method that the gateway answers itself: the node's list would name methods that are refused here. */
const listMethod = "rpc_methods";

/** What the gateway itself calls beside the known methods. It is none of them, and so is treated as one that writes. */
const submitMethod = "author_submitExtrinsic";

/**
 * The whitelist by client name. `methods` of the configuration takes methods off (`false`), adds them, or changes their
 * price; a method that is not in the table is treated as one that writes: never kept, shared or sent twice.
 */
export function createWhitelist(
  config: Pick<PoolConfig, "aliases" | "methods">,
): ReadonlyMap<string, Method> {
  const names = new Set<string>();
  for (const [name, known] of knownMethods) if (known.optional !== true) names.add(name);
  for (const [name, change] of Object.entries(config.methods)) {
    if (change === false) names.delete(name);
    else names.add(name);
  }
  const own = JSON.stringify({ methods: [...names].toSorted() });
  const whitelist = new Map<string, Method>();
  for (const name of names) whitelist.set(name, createMethod(name, config, own));
  return whitelist;
}

/**
 * The methods that the gateway may call for its own needs though clients may not: known ones that are off or were taken
 * off the whitelist, and the one that submits what a client has confirmed.
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
  own: string,
): Method {
  const known = knownMethods.get(name) ?? unknownMethod;
  const change = config.methods[name];
  const { cuMilli = known.cuMilli, params = known.params } = change === false ? {} : (change ?? {});
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
    kept: lifetime !== "write" && lifetime !== "personal" && lifetime !== "moving",
    shared: lifetime !== "write" && lifetime !== "personal",
    own: name === listMethod ? own : undefined,
  };
}

/** The longest matching prefix wins, so that the order of the aliases does not matter. */
function nodeNameOf(name: string, aliases: PoolConfig["aliases"]): string {
  const fixed = nodeNames.get(name);
  if (fixed !== undefined) return fixed;
  let prefix = "";
  for (const alias of Object.keys(aliases)) {
    if (alias.length > prefix.length && name.startsWith(alias)) prefix = alias;
  }
  return (aliases[prefix] ?? "") + name.slice(prefix.length);
}
