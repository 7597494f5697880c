/** Chooses the node for subscriptions of a pool. */
import type { Clock } from "sluice-gateway/plugin";
import type { BlockOfCall, NodePool, NodeTarget } from "../node-pool.ts";

/** A node that was lost is not used for this time if there is another one. */
const avoidMs = 10_000;

export class TargetChoice {
  readonly #pool: Pick<NodePool, "targets">;
  readonly #clock: Clock;
  readonly #avoidUntil = new Map<string, number>();

  constructor(pool: Pick<NodePool, "targets">, clock: Clock) {
    this.#pool = pool;
    this.#clock = clock;
  }

  /** Number of nodes to choose from. */
  get count(): number {
    return this.#pool.targets?.().length ?? 0;
  }

  /**
   * Returns the best node that was not lost recently, or the one whose loss was the longest time ago. Nodes that have
   * the `block` are better. Undefined if all nodes are in `except`, which contains labels.
   */
  choose(block?: BlockOfCall, except: ReadonlySet<string> = new Set()): NodeTarget | undefined {
    const now = this.#clock.monotonic();
    const avoided = ({ label }: NodeTarget): number =>
      Math.max(0, (this.#avoidUntil.get(label) ?? 0) - now);
    const targets = this.#pool.targets?.(block) ?? [];
    const left = targets.filter(({ label }) => !except.has(label));
    return left.toSorted((a, b) => avoided(a) - avoided(b))[0];
  }

  /** Records that a node was lost. */
  avoid({ label }: NodeTarget): void {
    this.#avoidUntil.set(label, this.#clock.monotonic() + avoidMs);
  }

  /** Returns true if the pool no longer uses this node, but another one. */
  isUnusable({ label }: NodeTarget): boolean {
    const targets = this.#pool.targets?.() ?? [];
    return targets.length > 0 && !targets.some((target) => target.label === label);
  }
}
