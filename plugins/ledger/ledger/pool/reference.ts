/**
 * The node that supplies heads, subscriptions and follows. Clients see the heads of one node at a time, so these do not
 * go back. Reads at a block go to any node.
 *
 * If the reference is lost, the next one must have finalized the highest block that clients may know (the floor), on the
 * same chain. Until there is such a node, the pool is choosing, and clients wait.
 */
import type { Clock, Log } from "sluice-gateway/plugin";
import type { FinalizedBlock } from "../node-pool.ts";
import { maxWaitMs } from "../height-waits.ts";
import type { Floor } from "./floor.ts";
import { ask } from "./probe.ts";
import type { PooledNode } from "./pooled-node.ts";

/**
 * A finalized head may be this number of blocks above the best block of the other nodes. A node that reports more is
 * not believed, because no other node could reach a head that is too high.
 */
const maxAhead = 16;
/** A reference that finalizes blocks may be this number of blocks behind another node. */
const maxBehind = 64;
/** The reference is left if it has been behind for this time. Blocks can take 12 s. */
const behindMs = 20_000;
/** A node that was lost is not chosen again for this time if there is another one. */
const avoidMs = 10_000;
/** While the pool is choosing, the nodes are probed at this interval. After two of them, lost nodes may be chosen again. */
const chooseMs = 250;
/** A floor that no usable node has reached for this time is withdrawn. */
const withdrawMs = 60_000;

export interface ReferenceDeps {
  readonly nodes: readonly PooledNode[];
  readonly callable: () => readonly PooledNode[];
  readonly probe: () => Promise<void>;
  readonly floor: Floor;
  readonly clock: Clock;
  readonly log: Log;
}

type State =
  | { readonly kind: "choosing"; readonly since: number; readonly timer: Disposable }
  | { readonly kind: "following"; readonly node: PooledNode }
  | { readonly kind: "closed" };

export class Reference {
  readonly #deps: ReferenceDeps;
  #state: State;
  /** The highest finalized block of the reference whose hash is known. */
  #known: FinalizedBlock | undefined;
  #confirming: PooledNode | undefined;
  /** Monotonic times. Undefined while the reference is not behind, and while a usable node has reached the floor. */
  #behindSince: number | undefined;
  #unreachedSince: number | undefined;
  #reviewed = -1;
  readonly #avoidUntil = new Map<PooledNode, number>();
  readonly #listeners = new Set<() => void>();

  constructor(deps: ReferenceDeps) {
    this.#deps = deps;
    // The first node in the configuration is used until the nodes have been probed, unless clients know a block of the
    // nodes before a reload, which it may not have.
    const [node] = deps.nodes;
    if (node === undefined) this.#state = { kind: "closed" };
    else this.#state = this.floor ? this.#choosing() : { kind: "following", node };
  }

  /** Undefined while the pool is choosing. */
  get node(): PooledNode | undefined {
    return this.#state.kind === "following" ? this.#state.node : undefined;
  }

  /**
   * Number of the highest finalized block that clients may know, 0 if there is none. Undefined if the pool has a single
   * node, which cannot disagree.
   */
  get floor(): number | undefined {
    return this.#deps.nodes.length > 1 ? this.#deps.floor.height : undefined;
  }

  numberOf(hash: string): number | undefined {
    return this.#known?.hash === hash ? this.#known.number : undefined;
  }

  /** Resolves to true as soon as there is a reference, or to false after two seconds. Never rejects. */
  async ready(): Promise<boolean> {
    if (this.#state.kind === "choosing") {
      const { promise, resolve } = Promise.withResolvers<void>();
      using _listener = this.onChange(() => {
        if (this.#state.kind !== "choosing") resolve();
      });
      using _timer = this.#deps.clock.after(maxWaitMs, resolve);
      await promise;
    }
    return this.node !== undefined;
  }

  /**
   * Called when a node has announced its finalized head, before clients are notified of it. Ignored unless the node is
   * the reference. `known`: a finalized block whose hash is known: this one, or its parent.
   */
  announced(label: string, number: number, known?: FinalizedBlock): void {
    const { node } = this;
    const { floor } = this.#deps;
    if (node?.label !== label || !this.believes(node, number) || number < floor.height) return;
    floor.raise(number);
    this.#known = known ?? this.#known;
  }

  /** Returns true if a finalized block of the node is not far above the other usable nodes or, if there are none, its own best block. */
  believes(node: PooledNode, number: number): boolean {
    const others = this.#deps.nodes.filter((other) => other !== node && !other.isEjected);
    const known = others.flatMap(({ observed }) => observed?.best ?? []);
    const best = known.length > 0 ? Math.max(...known) : (node.observed?.best ?? number);
    return number <= best + maxAhead;
  }

  /** Called when the node with this label has broken a connection or a rule. The pool then chooses another one. */
  lose(label: string): void {
    const { node } = this;
    if (node?.label !== label) return;
    const { clock, probe } = this.#deps;
    this.#avoidUntil.set(node, clock.monotonic() + avoidMs);
    this.#state = this.#choosing();
    this.#confirming = undefined;
    this.#behindSince = undefined;
    this.#changed();
    this.#choose();
    if (this.#state.kind === "choosing") void probe();
  }

  onChange(listener: () => void): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  review(): void {
    this.#reviewFloor();
    if (this.#state.kind === "choosing") return this.#choose();
    const { node } = this;
    if (node === undefined) return;
    const callable = this.#deps.callable();
    if (callable.length > 0 && !callable.includes(node))
      return this.#leave(node, "it is not usable");
    if (this.#isBehind(node, callable)) this.#leave(node, "it finalizes no blocks");
  }

  reset(): void {
    this.#deps.floor.reset();
    this.#known = undefined;
  }

  close(): void {
    if (this.#state.kind === "choosing") this.#state.timer[Symbol.dispose]();
    this.#state = { kind: "closed" };
    this.#changed();
  }

  #choosing(): State {
    const { clock, probe } = this.#deps;
    const again = (): void => {
      void probe();
      this.#choose();
    };
    return {
      kind: "choosing",
      since: clock.monotonic(),
      timer: clock.every(chooseMs, again),
    };
  }

  #leave(node: PooledNode, reason: string): void {
    this.#deps.log.info({ node: node.label, reason }, "another node becomes the reference");
    this.lose(node.label);
  }

  /** Withdraws the floor if it was wrong, so that clients do not wait for it any longer. */
  #reviewFloor(): void {
    const callable = this.#deps.callable();
    const now = this.#deps.clock.monotonic();
    const isReached = callable.some(({ finalized = 0 }) => finalized >= this.#deps.floor.height);
    const isKnown = callable.some(({ isEjected }) => !isEjected);
    this.#unreachedSince = isReached || !isKnown ? undefined : (this.#unreachedSince ?? now);
    if (now - (this.#unreachedSince ?? now) < withdrawMs) return;
    this.#unreachedSince = undefined;
    this.reset();
  }

  #isBehind({ finalized = -1 }: PooledNode, callable: readonly PooledNode[]): boolean {
    const now = this.#deps.clock.monotonic();
    const highest = Math.max(-1, ...callable.map((node) => node.finalized ?? -1));
    const hasAdvanced = finalized > this.#reviewed && highest - finalized <= maxBehind;
    this.#reviewed = finalized;
    if (finalized >= highest) this.#behindSince = undefined;
    else if (hasAdvanced) this.#behindSince = now;
    else this.#behindSince ??= now;
    return now - (this.#behindSince ?? now) >= behindMs;
  }

  #choose(): void {
    const state = this.#state;
    if (state.kind !== "choosing" || this.#confirming !== undefined) return;
    const now = this.#deps.clock.monotonic();
    const callable = this.#deps.callable();
    const avoided = (node: PooledNode): number =>
      Math.max(0, (this.#avoidUntil.get(node) ?? 0) - now);
    const others = callable.filter((node) => avoided(node) === 0);
    const mayRepeat = others.length === 0 || now - state.since >= 2 * chooseMs;
    const floor = this.floor ?? -1;
    const able = (mayRepeat ? callable : others)
      .filter(({ finalized = 0 }) => finalized >= floor)
      .toSorted(
        (a, b) => avoided(a) - avoided(b) || (b.observed?.best ?? 0) - (a.observed?.best ?? 0),
      );
    const [node] = able;
    if (node !== undefined) void this.#follow(node);
  }

  /** Follows the node if it has the finalized block that is known. Never rejects. */
  async #follow(node: PooledNode): Promise<void> {
    const known = this.floor === undefined ? undefined : this.#known;
    const isSame = known === undefined || node.observed?.finalizedHash === known.hash;
    if (!isSame) {
      this.#confirming = node;
      const reply = await ask(node.probeClient, "chain_getBlockHash", [known.number]);
      if (this.#confirming !== node) return;
      this.#confirming = undefined;
      const hash = reply.kind === "value" ? reply.value : undefined;
      if (typeof hash !== "string" || hash.toLowerCase() !== known.hash) {
        this.#avoidUntil.set(node, this.#deps.clock.monotonic() + avoidMs);
        if (typeof hash === "string")
          this.#deps.log.error({ node: node.label }, "node has finalized another chain");
        return;
      }
    }
    if (this.#state.kind !== "choosing") return;
    this.#state.timer[Symbol.dispose]();
    this.#state = { kind: "following", node };
    this.#reviewed = -1;
    this.#changed();
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }
}
