/**
 * Reports the finalized heads of subscriptions to the pool, and keeps a new subscription from starting below the finalized
 * head that the pool has already answered with. A subscription that has started continues with every head of its node.
 */
import { readNumber } from "../finality.ts";
import { memberAt } from "../json-part.ts";
import type { NodePool } from "../node-pool.ts";
import type { Topic } from "./topic.ts";

export class FinalizedStart {
  readonly #pool: Pick<NodePool, "announcements">;
  readonly #started = new WeakSet<Topic>();

  constructor(pool: Pick<NodePool, "announcements">) {
    this.#pool = pool;
  }

  /** Returns true if the topic accepts this notification. `node`: label of the node. `result`: JSON text. */
  accepts(topic: Topic, node: string, result: string): boolean {
    const { announcements } = this.#pool;
    if (topic.method.kind !== "finalized" || announcements === undefined) return true;
    const number = readNumber(memberAt(result, ["number"]));
    // The topic recognises a head that is not valid.
    if (number === undefined) return true;
    announcements.announcedFinalized(node, number);
    if (!this.#started.has(topic) && number < (announcements.finalizedFloor ?? 0)) return false;
    this.#started.add(topic);
    return true;
  }
}
