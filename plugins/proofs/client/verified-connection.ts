/** A connection to a gateway, of whose answers and notifications only the verified ones pass. */
import { isObject } from "sluice-gateway/internal/toolkit";
import type { Checkpoint } from "../proofs/finalized-chain.ts";
import { headerOfJson } from "../proofs/header.ts";
import { ChainHead } from "./chain-head.ts";
import { RpcSocket, type Notification } from "./rpc-socket.ts";
import { StorageWatches } from "./storage-watches.ts";
import { VerifiedReads } from "./verified-reads.ts";

export interface ProviderOptions {
  /** A finalized block that you trust. `sluice verify --head --json` prints one. */
  readonly checkpoint: Checkpoint;
}

export interface ConnectionListener {
  onNotification(notification: Notification): void;
  onOpen?(): void;
  onClose?(): void;
}

const maxAttempts = 5;
const retryMs = 1_000;

export class VerifiedConnection {
  isOpen = false;
  readonly #socket: RpcSocket;
  readonly #reads: VerifiedReads;
  readonly #chainHead: ChainHead;
  readonly #watches: StorageWatches;
  readonly #listener: ConnectionListener;
  readonly #follows = new Set<unknown>();
  /** Subscriptions that have reported a block that is not finalized. Nothing of them passes any more. */
  readonly #untrue = new Set<unknown>();
  /** Notifications keep their order although verifying them takes time. */
  #verifying: Promise<void> = Promise.resolve();

  /** Throws an Error if the authorities of the checkpoint have no weight. */
  constructor(url: string, { checkpoint }: ProviderOptions, listener: ConnectionListener) {
    this.#listener = listener;
    const notify = (notification: Notification): void => listener.onNotification(notification);
    this.#socket = new RpcSocket(url, {
      onNotification: (notification) => {
        this.#verifying = this.#verifying
          .then(() => this.#onNotification(notification))
          // It cannot be verified, so it does not pass.
          .catch(() => {});
      },
      onOpen: () => this.#onOpen(),
      onClose: () => this.#onClose(),
    });
    this.#reads = new VerifiedReads(checkpoint, (method, params) =>
      this.#socket.call(method, params),
    );
    this.#chainHead = new ChainHead(this.#reads, notify);
    this.#watches = new StorageWatches(this.#reads, notify);
  }

  /** Rejects with an RpcError. */
  async open(): Promise<void> {
    await this.#socket.open();
  }

  /** Resolves to the verified result. Rejects with an RpcError. */
  async call(method: string, params: readonly unknown[]): Promise<unknown> {
    const own = this.#chainHead.call(method, params) ?? this.#watches.call(method, params);
    const result = await (own ?? this.#reads.call(method, params));
    if (method === "chainHead_v1_follow") this.#follows.add(result);
    return result;
  }

  close(): void {
    this.#follows.clear();
    this.#socket.close();
  }

  async #onNotification(notification: Notification): Promise<void> {
    const { method, params } = notification;
    const { subscription, result } = params;
    // It may have come with the answer that names the subscription, which must be delivered first.
    await new Promise((resolve) => setTimeout(resolve, 0));
    const hashes = finalizedBy(method, result);
    if (this.#untrue.has(subscription)) return;
    if (hashes !== undefined && !(await this.#areFinalized(hashes))) {
      this.#untrue.add(subscription);
      return;
    }
    if (this.#watches.isOwn(subscription)) return await this.#watches.review(hashes?.at(-1));
    // `StorageWatches` subscribes to heads instead.
    if (method !== "state_storage") this.#listener.onNotification(notification);
  }

  /** A node that does not have the proof of a new block yet has it soon. Rejects with an RpcError. */
  async #areFinalized(hashes: readonly string[]): Promise<boolean> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#reads.areFinalized(hashes);
      } catch (error) {
        if (attempt === maxAttempts || !this.isOpen) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, retryMs));
    }
  }

  #onOpen(): void {
    this.isOpen = true;
    this.#listener.onOpen?.();
  }

  #onClose(): void {
    this.isOpen = false;
    this.#watches.close();
    for (const subscription of this.#follows)
      this.#listener.onNotification({
        method: "chainHead_v1_followEvent",
        params: { subscription, result: { event: "stop" } },
      });
    this.#follows.clear();
    this.#untrue.clear();
    this.#listener.onClose?.();
  }
}

/** Returns the hashes of the blocks that a notification calls finalized, with "" if it does not name one. */
function finalizedBy(method: string, result: unknown): readonly string[] | undefined {
  if (method === "chain_finalizedHead") return [headerOfJson(result)?.hash ?? ""];
  if (method !== "chainHead_v1_followEvent" || !isObject(result)) return undefined;
  const { event, finalizedBlockHashes } = result;
  if (event !== "initialized" && event !== "finalized") return undefined;
  const hashes: readonly unknown[] = Array.isArray(finalizedBlockHashes)
    ? finalizedBlockHashes
    : [];
  return hashes.map((hash) => (typeof hash === "string" ? hash.toLowerCase() : ""));
}
