/** Notifies of verified values at each finalized block. A node would send values without a proof. */
import type { Notification } from "./rpc-socket.ts";
import { provableRead } from "../reads/provable-reads.ts";
import { notProved, type VerifiedReads } from "./verified-reads.ts";

const readMethod = "state_queryStorageAt";

interface Watch {
  readonly keys: readonly unknown[];
  readonly values: Map<string, unknown>;
}

interface Changes {
  readonly block: string;
  readonly changes: readonly (readonly [string, unknown])[];
}

export class StorageWatches {
  readonly #reads: VerifiedReads;
  readonly #notify: (notification: Notification) => void;
  readonly #watches = new Map<unknown, Watch>();
  #lastId = 0;
  /** The subscription to finalized heads, which all watches share, and its id. */
  #opening: Promise<unknown> | undefined;
  #heads: unknown;

  constructor(reads: VerifiedReads, notify: (notification: Notification) => void) {
    this.#reads = reads;
    this.#notify = notify;
  }

  /** Undefined for a method that is not answered here. Rejects with an RpcError. */
  call(method: string, [param]: readonly unknown[]): Promise<unknown> | undefined {
    if (method === "state_subscribeStorage") return this.#open(Array.isArray(param) ? param : []);
    if (method === "state_unsubscribeStorage") return this.#end(param);
    return undefined;
  }

  /** Returns true if the heads of this subscription are only needed here. */
  isOwn(subscription: unknown): boolean {
    return subscription !== undefined && subscription === this.#heads;
  }

  /** Call it for each finalized block. `hash`: undefined for the finalized head. Never rejects. */
  async review(hash?: string): Promise<void> {
    // Values that cannot be verified are left out, until the next block.
    for (const [id, watch] of this.#watches) await this.#review(id, watch, hash).catch(() => {});
  }

  async #open(keys: readonly unknown[]): Promise<unknown> {
    if (provableRead(readMethod, JSON.stringify([keys])) === undefined)
      throw notProved("the client cannot verify these keys");
    const id = `sluice-${++this.#lastId}`;
    const watch = { keys, values: new Map() };
    this.#watches.set(id, watch);
    try {
      this.#heads = await (this.#opening ??= this.#reads.call("chain_subscribeFinalizedHeads", []));
    } catch (error) {
      this.#watches.delete(id);
      this.#opening = undefined;
      throw error;
    }
    // The first values follow the answer with the id.
    setTimeout(() => void this.#review(id, watch).catch(() => {}), 0);
    return id;
  }

  /** The gateway charges for heads, so the last watch ends their subscription, too. */
  async #end(id: unknown): Promise<boolean> {
    const isKnown = this.#watches.delete(id);
    const heads = this.#heads;
    if (heads === undefined || this.#watches.size > 0) return isKnown;
    this.#opening = this.#heads = undefined;
    await this.#reads.call("chain_unsubscribeFinalizedHeads", [heads]);
    return isKnown;
  }

  async #review(subscription: string | unknown, watch: Watch, hash?: string): Promise<void> {
    const { keys, values } = watch;
    const params = hash === undefined ? [keys] : [keys, hash];
    const [read] = (await this.#reads.call(readMethod, params)) as readonly Changes[];
    if (read === undefined || this.#watches.get(subscription) !== watch) return;
    const isNew = ([key, value]: readonly [string, unknown]): boolean =>
      !values.has(key) || values.get(key) !== value;
    const changes = read.changes.filter(isNew);
    for (const [key, value] of changes) values.set(key, value);
    if (changes.length === 0) return;
    const result = { block: read.block, changes };
    this.#notify({ method: "state_storage", params: { subscription, result } });
  }

  close(): void {
    this.#watches.clear();
    this.#opening = this.#heads = undefined;
  }
}
