/** One `chainHead_v1_follow` at the node, and the clients that share it. */
import type { ClientFollow } from "sluice-gateway/services";
import { EventRate, type FeedAnswer, type OnFeedAnswer } from "../feed/feed-connection.ts";
import { HeightWaits } from "../height-waits.ts";
import { memberAt } from "../json-part.ts";
import type { FinalizedBlock, NodeHead } from "../node-pool.ts";
import { BlockTree, type Block } from "./block-tree.ts";
import { FollowClient, type FollowOwner } from "./follow-client.ts";
import { Operations, type OperationsDeps } from "./operations.ts";

/**
 * Maximum number of blocks that clients keep pinned after they were finalized or pruned. Clients that still hold the
 * oldest one then are stopped, because a node that has to keep too many blocks stops the follow of all.
 */
const maxRetired = 128;
/** A follow that has sent an event within this time is not silent. */
const silentMs = 5_000;
/** Maximum number of events per second, without those of operations that the gateway has started. */
const maxEventRate = 5_000;

export interface FollowLink extends Pick<
  OperationsDeps,
  "clock" | "answerMs" | "cache" | "sharing"
> {
  /** Asks the node for the number of a block. Undefined if it does not answer. Never rejects. */
  numberOf(hash: string): Promise<number | undefined>;
  /** Called when the node has finalized a block, before the clients are notified. */
  onFinalized(block: FinalizedBlock): void;
  send(method: string, params: string, onAnswer: OnFeedAnswer): void;
  /** The node has stopped the follow or broken the protocol. */
  onBroken(reason: string): void;
  onUnused(): void;
  onChange(): void;
}

export class SharedFollow implements FollowOwner {
  readonly #id: string;
  readonly #link: FollowLink;
  readonly #tree: BlockTree;
  readonly operations: Operations;
  readonly #heights: HeightWaits;
  /** Hash of the finalized block. Empty before the first event. */
  #finalized = "";
  #advanced = 0;
  /** Number of the block that was finalized in the first event. Undefined while it is not known. */
  #firstNumber: number | undefined;
  #isAsking = false;
  readonly #clients = new Set<FollowClient>();
  /** Blocks without holders, until they are unpinned at the node together. */
  #unpinning: string[] = [];
  readonly #headers = new Map<string, Promise<FeedAnswer>>();
  #hasEnded = false;
  readonly #rate: EventRate;
  /** Time of the monotonic clock when the node last sent an event, other than those of operations. */
  #eventAt: number;

  constructor(id: string, withRuntime: boolean, link: FollowLink) {
    this.#id = id;
    this.#link = link;
    this.#heights = new HeightWaits(link.clock);
    this.#rate = new EventRate(link.clock);
    this.#eventAt = link.clock.monotonic();
    this.#tree = new BlockTree(withRuntime, (block) => this.#unpin(block));
    this.operations = new Operations({
      ...link,
      send: (method, params, onAnswer) => link.send(method, `[${id},${params}]`, onAnswer),
      release: (block) => this.#tree.release(block),
    });
  }

  get clients(): number {
    return this.#clients.size;
  }

  get pinnedBlocks(): number {
    return this.#tree.size;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Returns true if the node has sent nothing recently and has not sent its own best block. */
  isMissing({ bestHash }: NodeHead): boolean {
    if (bestHash === undefined || this.#tree.block(bestHash) !== undefined) return false;
    return this.#link.clock.monotonic() - this.#eventAt >= silentMs;
  }

  /** Resolves to true when the node has finalized the block with this number, or to false if that takes too long. */
  reached(floor: number): Promise<boolean> {
    this.#announce();
    return this.#heights.wait(floor);
  }

  join(): ClientFollow {
    const client = new FollowClient(this, this.#tree);
    this.#clients.add(client);
    this.#link.onChange();
    return client;
  }

  receive(result: string): void {
    if (this.#hasEnded) return;
    const event = memberAt(result, ["event"])?.slice(1, -1) ?? "";
    if (event === "stop") return this.#link.onBroken("the node stopped the follow");
    if (event.startsWith("operation") && this.operations.receive(event, result)) return;
    if (this.#rate.isAbove(maxEventRate)) return this.#link.onBroken("too many events");
    // An event of an operation that has been stopped.
    if (event.startsWith("operation")) return;
    this.#eventAt = this.#link.clock.monotonic();
    const change = this.#tree.accept(result);
    if (change.kind === "initialized" || change.kind === "finalized")
      this.#advance(change.finalized, change.kind);
    switch (change.kind) {
      case "invalid":
        return this.#link.onBroken(`invalid event ${event.slice(0, 32)}`);
      case "ignored":
        return;
      case "initialized":
        for (const client of this.#clients) client.begin();
        return this.#link.onChange();
      case "newBlock":
      case "best":
      case "finalized":
      default:
        for (const client of this.#clients) client.change(change, result);
    }
    if (change.kind === "finalized") {
      this.#tree.settle(change.pruned);
      this.#stopHolders();
    }
    this.#link.onChange();
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.operations.close();
    this.#heights.close();
    const clients = [...this.#clients];
    this.#clients.clear();
    for (const client of clients) client.stop();
  }

  leave(client: FollowClient): void {
    if (!this.#clients.delete(client)) return;
    this.#link.onChange();
    if (this.#clients.size === 0) this.#link.onUnused();
  }

  header(block: Block): Promise<FeedAnswer> {
    const running = this.#headers.get(block.hash);
    if (running !== undefined) return running;
    const { cache } = this.#link;
    const answers = cache?.answersOf("chainHead_v1_header");
    const cached = answers && cache?.get(answers, block.hash);
    if (cached !== undefined) return Promise.resolve({ kind: "result", text: cached.toString() });
    const { promise, resolve } = Promise.withResolvers<FeedAnswer>();
    this.#headers.set(block.hash, promise);
    this.#link.send("chainHead_v1_header", `[${this.#id},"${block.hash}"]`, (answer) => {
      this.#headers.delete(block.hash);
      const isHeader = answer?.kind === "result" && answer.text.startsWith('"');
      if (isHeader && answers !== undefined) cache?.set(answers, block.hash, answer.text);
      resolve(answer);
    });
    return promise;
  }

  #advance(blocks: readonly Block[], kind: "initialized" | "finalized"): void {
    this.#finalized = blocks.at(-1)?.hash ?? "";
    if (kind === "finalized") this.#advanced += blocks.length;
    this.#announce();
  }

  /** Reports the finalized block. The events have hashes only, so the node is asked for the first number. */
  #announce(): void {
    if (this.#finalized === "") return;
    if (this.#firstNumber === undefined) return void this.#askNumber();
    const number = this.#firstNumber + this.#advanced;
    this.#link.onFinalized({ hash: this.#finalized, number });
    this.#heights.reached(number);
  }

  /** Never rejects. */
  async #askNumber(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const advanced = this.#advanced;
    const number = await this.#link.numberOf(this.#finalized);
    this.#isAsking = false;
    if (this.#hasEnded || number === undefined) return;
    // The node may have finalized more blocks in the meantime.
    this.#firstNumber = number - advanced;
    this.#announce();
  }

  #stopHolders(): void {
    for (;;) {
      const oldest = this.#tree.oldestRetired(maxRetired);
      if (oldest === undefined) return;
      const holders = [...this.#clients].filter((client) => client.holds(oldest));
      // Operations hold a block for a limited time only.
      if (holders.length === 0) return;
      for (const client of holders) {
        this.#clients.delete(client);
        client.stop();
        client.releaseAll();
      }
      if (this.#clients.size === 0) this.#link.onUnused();
    }
  }

  #unpin({ hash }: Block): void {
    if (this.#hasEnded) return;
    if (this.#unpinning.push(hash) > 1) return;
    queueMicrotask(() => {
      const hashes = JSON.stringify(this.#unpinning);
      this.#unpinning = [];
      if (this.#hasEnded) return;
      this.#link.send("chainHead_v1_unpin", `[${this.#id},${hashes}]`, () => {});
      this.#link.onChange();
    });
  }
}
