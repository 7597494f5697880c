/** Notifies of verified values at each finalized block. A node would send values without a proof. */
import type { Notification } from "./rpc-socket.ts";
import type { VerifiedReads } from "./verified-reads.ts";

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
  #heads: unknown;

  constructor(reads: VerifiedReads, notify: (notification: Notification) => void) {
    this.#reads = reads;
    this.#notify = notify;
  }

  /** Undefined for a method that is not answered here. Rejects with an RpcError. */
  call(method: string, [param]: readonly unknown[]): Promise<unknown> | undefined {
    if (method === "state_subscribeStorage") return this.#open(Array.isArray(param) ? param : []);
    if (method === "state_unsubscribeStorage") return Promise.resolve(this.#watches.delete(param));
    return undefined;
  }

  /** Returns true if the heads of this subscription are only needed here. */
  isOwn(subscription: unknown): boolean {
    return subscription !== undefined && subscription === this.#heads;
  }

  /** Call it for each finalized block. `hash`: undefined for the finalized head. */
  async review(hash?: string): Promise<void> {
    for (const [id, watch] of this.#watches) await this.#review(id, watch, hash);
  }

  async #open(keys: readonly unknown[]): Promise<unknown> {
    this.#heads ??= await this.#reads.call("chain_subscribeFinalizedHeads", []);
    const id = `sluice-${++this.#lastId}`;
    const watch = { keys, values: new Map() };
    this.#watches.set(id, watch);
    // The first values follow the answer with the id.
    setTimeout(() => void this.#review(id, watch).catch(() => {}), 0);
    return id;
  }

  async #review(subscription: string | unknown, watch: Watch, hash?: string): Promise<void> {
    const { keys, values } = watch;
    const params = hash === undefined ? [keys] : [keys, hash];
    const [read] = (await this.#reads.call("state_queryStorageAt", params)) as readonly Changes[];
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
    this.#heads = undefined;
  }
}
