import type { Header } from "./header.ts";
import { finalizedHead, hashAt, NodeError, type HeadNode } from "./node.ts";
import type { ProvedChain } from "./proved-chain.ts";

/**
 * `proved`: the head is part of the proved chain. `differs`: it contradicts what is proved, or the nodes contradict each
 * other and nothing is proved. `unproved`: neither is known. `silent`: the node did not report a head.
 */
type HeadState = "proved" | "unproved" | "differs" | "silent";

export interface NodeHead {
  readonly node: string;
  readonly state: HeadState;
  readonly number?: number | undefined;
  readonly hash?: string | undefined;
  /** Undefined if the head is proved. */
  readonly reason?: string | undefined;
}

/**
 * Never rejects. `chain`: undefined if nothing is proved. `inTime`: rejects with a NodeError if a node takes too long to
 * report its head.
 */
export async function checkHeads(
  nodes: readonly HeadNode[],
  chain: ProvedChain | undefined,
  inTime = (head: Promise<Header>): Promise<Header> => head,
): Promise<readonly NodeHead[]> {
  const claims = await Promise.all(nodes.map((node) => claimOf(node, inTime(finalizedHead(node)))));
  if (chain === undefined) return await compare(claims);
  const faults = new Map<HeadNode, NodeError>();
  const heads = claims.filter((claim) => "head" in claim);
  for (const { node, head } of heads.toSorted((a, b) => b.head.number - a.head.number)) {
    const fault = await errorOf(() => chain.follow(node, head.number));
    if (fault !== undefined) faults.set(node, fault);
  }
  return await Promise.all(claims.map((claim) => judge(chain, claim, faults.get(claim.node))));
}

type Claim =
  | { readonly node: HeadNode; readonly head: Header }
  | { readonly node: HeadNode; readonly error: NodeError };

async function claimOf(node: HeadNode, head: Promise<Header>): Promise<Claim> {
  try {
    return { node, head: await head };
  } catch (error) {
    return { node, error: nodeError(error) };
  }
}

async function judge(
  chain: ProvedChain,
  claim: Claim,
  fault: NodeError | undefined,
): Promise<NodeHead> {
  const { node } = claim;
  if ("error" in claim) {
    const { isProvedWrong, message } = claim.error;
    return { node: node.name, state: isProvedWrong ? "differs" : "silent", reason: message };
  }
  const { number, hash } = claim.head;
  const report = (state: HeadState, reason?: string): NodeHead => ({
    node: node.name,
    state,
    number,
    hash,
    reason,
  });
  if (chain.ended !== undefined && !chain.isConfirmed) return report("unproved", chain.ended);
  if (chain.hash === undefined) return report("unproved", fault?.message);
  const proved = chain.hashAt(number);
  if (proved === hash) return report("proved");
  if (proved !== undefined) return report("differs", `block ${number} is proved with another hash`);
  if (number < chain.number)
    return report("unproved", "the head is older than the proved blocks that are kept");
  if (fault?.isProvedWrong === true) return report("differs", fault.message);
  const own = await hashAt(node, chain.number).catch(() => undefined);
  return own === undefined || own === chain.hash
    ? report("unproved", fault?.message)
    : report("differs", `block ${chain.number} is proved with another hash`);
}

/** Without a checkpoint nothing says which node is right, so every node differs if two do. */
async function compare(claims: readonly Claim[]): Promise<readonly NodeHead[]> {
  const lowest = Math.min(...claims.flatMap((claim) => ("head" in claim ? claim.head.number : [])));
  const hashes = await Promise.all(
    claims.map(async (claim) => {
      if (!("head" in claim)) return undefined;
      const { number, hash } = claim.head;
      return number === lowest ? hash : await hashAt(claim.node, lowest).catch(() => undefined);
    }),
  );
  const distinct = new Set(hashes.filter((hash) => hash !== undefined));
  return claims.map((claim): NodeHead => {
    const node = claim.node.name;
    if ("error" in claim) return { node, state: "silent", reason: claim.error.message };
    const { number, hash } = claim.head;
    return distinct.size > 1
      ? {
          node,
          number,
          hash,
          state: "differs",
          reason: `the nodes have different blocks ${lowest}`,
        }
      : { node, number, hash, state: "unproved", reason: "there is no checkpoint" };
  });
}

async function errorOf(task: () => Promise<void>): Promise<NodeError | undefined> {
  try {
    await task();
    return undefined;
  } catch (error) {
    return nodeError(error);
  }
}

/** Rethrows an error that is not the fault of a node. */
function nodeError(error: unknown): NodeError {
  if (error instanceof NodeError) return error;
  throw error;
}
