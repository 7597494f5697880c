/** A scripted node with a chain of blocks: it may lag, fork, prune, stall and give empty or wrong answers. */
import { failure, response, result, startNode, type ScriptedNode } from "./scripted-node.ts";

/** Returns the hash of a block. `fork`: one digit, 0 for the main chain. */
export function hashOf(number: number, fork = 0): string {
  return `0x${fork}${number.toString(16).padStart(63, "0")}`;
}

export interface BlockNode extends ScriptedNode {
  best: number;
  finalized: number;
  /** Number of the oldest block whose state the node has. */
  oldestState: number;
  stalls: (method: string, params: readonly unknown[]) => boolean;
  /** JSON text that replaces the result of a call. */
  says: (method: string, params: readonly unknown[]) => string | undefined;
  /** The calls for storage that came from the test, as `key@block`. */
  readonly reads: string[];
}

const extrinsicIndexKey = "0x3a65787472696e7369635f696e646578";

export async function startBlockNode(
  name: string,
  state: Partial<Pick<BlockNode, "best" | "finalized" | "oldestState">> = {},
): Promise<BlockNode> {
  const node: BlockNode = Object.assign(await startNode(() => {}), {
    best: 100,
    finalized: 98,
    oldestState: 0,
    stalls: () => false,
    says: () => undefined,
    reads: [],
    ...state,
  });
  node.script = (received) => {
    const { id, method, params } = received.call();
    const list = params as readonly unknown[];
    if (method === "state_getStorage" && list[0] !== extrinsicIndexKey)
      node.reads.push(`${String(list[0])}@${String(list[1])}`);
    if (node.stalls(method, list)) return;
    const answer = node.says(method, list) ?? answerOf(node, name, method, list);
    const body = typeof answer === "string" ? result(id, answer) : failure(id, answer);
    received.socket.write(response(body));
  };
  return node;
}

function answerOf(
  node: BlockNode,
  name: string,
  method: string,
  params: readonly unknown[],
): string | object {
  const blockOf = (hash: unknown): number =>
    typeof hash === "string" ? Number.parseInt(hash.slice(3), 16) : node.best;
  switch (method) {
    case "system_health":
      return '{"peers":5,"isSyncing":false,"shouldHavePeers":true}';
    case "chain_getBlockHash": {
      const number = typeof params[0] === "number" ? params[0] : node.best;
      return number <= node.best ? JSON.stringify(hashOf(number)) : "null";
    }
    case "chain_getFinalizedHead":
      return JSON.stringify(hashOf(node.finalized));
    case "archive_v1_finalizedHeight":
      return String(node.finalized);
    case "chain_getHeader": {
      const number = blockOf(params[0]);
      return number <= node.best ? `{"number":"0x${number.toString(16)}"}` : "null";
    }
    case "state_getStorage": {
      const number = blockOf(params[1]);
      if (number > node.best)
        return { code: 4003, message: "Client error: UnknownBlock: Header was not found" };
      if (number < node.oldestState)
        return { code: 4003, message: "Client error: UnknownBlock: State already discarded" };
      return params[0] === extrinsicIndexKey ? "null" : JSON.stringify(name);
    }
    case "system_version":
      return '"1.0.0"';
    case "state_getRuntimeVersion":
      return '{"specName":"test","specVersion":1}';
    default:
      return JSON.stringify(name);
  }
}
