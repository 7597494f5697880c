/** Finds what a thread runs whose event loop does not run. */
import type { Worker } from "node:worker_threads";
import type { Clock } from "../../plugin.ts";

/** Time in which the calls are counted. */
const sampleMs = 100;
/** Time limit for the whole. A thread in native code cannot be profiled. */
const limitMs = 2_000;

interface ProfileNode {
  readonly id: number;
  readonly hitCount: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
    readonly columnNumber: number;
  };
  readonly children?: readonly number[];
}

/** Returns the calls that the thread is most often in, in the form of an error's stack. Empty if it is unknown. */
export async function stackOf(worker: Worker, clock: Clock): Promise<string> {
  const { promise: late, resolve } = Promise.withResolvers<string>();
  using _limit = clock.after(limitMs, () => resolve(""));
  return await Promise.race([sampled(worker, clock).catch(() => ""), late]);
}

async function sampled(worker: Worker, clock: Clock): Promise<string> {
  const profile = await worker.startCpuProfile();
  await new Promise<void>((resolve) => clock.after(sampleMs, resolve));
  // Node returns the profile as text.
  const { nodes } = JSON.parse(await profile.stop()) as { nodes: readonly ProfileNode[] };
  return stackOfNodes(nodes);
}

/** Follows the calls with the most samples, from the first call down. The profile is a tree whose root is first. */
function stackOfNodes(nodes: readonly ProfileNode[]): string {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const childrenOf = ({ children = [] }: ProfileNode): ProfileNode[] =>
    children.flatMap((id) => byId.get(id) ?? []);
  const hits = (node: ProfileNode): number =>
    childrenOf(node).reduce((sum, child) => sum + hits(child), node.hitCount);
  const frames: string[] = [];
  let at = nodes[0];
  while (at !== undefined) {
    const [next] = childrenOf(at).toSorted((a, b) => hits(b) - hits(a));
    if (next !== undefined) frames.unshift(frameOf(next));
    at = next;
  }
  return frames.join("\n");
}

function frameOf({ callFrame }: ProfileNode): string {
  const { functionName, url, lineNumber, columnNumber } = callFrame;
  const name = functionName === "" ? "<anonymous>" : functionName;
  return `    at ${name} (${url}:${lineNumber + 1}:${columnNumber + 1})`;
}
