/**
 * Reads of `archive_v1` that end by themselves. Each read has its own connection to a node, so that a node can wait for
 * the client of a large read without delaying other clients. A node that refuses a read, or that fails before its first
 * result, is replaced by another one, because only some nodes of a pool may have the block or the methods.
 */
import type { Clock } from "sluice-gateway/plugin";
import type {
  ArchiveRequest,
  ClientArchiveRead,
  LedgerArchive,
  OpenedArchiveRead,
} from "sluice-gateway/services";
import { isObject, parseOrUndefined } from "sluice-gateway/internal/toolkit";
import { feedLimits } from "../feed/feed-connection.ts";
import { NodeLinks, type NodeLink } from "../feed/node-links.ts";
import { OwnSubscription } from "../feed/own-subscription.ts";
import { memberAt } from "../json-part.ts";
import type { LedgerDeps } from "../pool/pool.ts";
import {
  createArchiveMethods,
  type ArchiveMethods,
  type KnownArchiveMethod,
} from "../websocket-methods.ts";

const maxLinks = 32;
/** Maximum number of nodes that are asked for one read. */
const maxNodes = 3;
/** Maximum number of events that wait for the client. They arrive with the answer of the node, before it can be paused. */
const maxWaiting = 16_384;
/**
 * Maximum time for which a read waits for its client. It is shorter than the time after which a client that reads
 * nothing is disconnected (`server.bodyIdleMs`), so that the connection to the node is free earlier.
 */
const maxPausedMs = 20_000;
const checkMs = 1_000;
const invalidParamsCode = -32602;

interface OpenRead {
  readonly method: KnownArchiveMethod;
  readonly request: ArchiveRequest;
  readonly asked: Set<string>;
  readonly subscription: OwnSubscription;
  /** The node that serves the read, and its id of the subscription as JSON text. Undefined while a node is chosen. */
  source: { readonly link: NodeLink; readonly id: string } | undefined;
  /** The connection to the node that is being asked and has not answered. */
  asking: NodeLink | undefined;
  /** Time of the monotonic clock at which the read was paused. Undefined if it is not paused. */
  pausedAt: number | undefined;
  hasResults: boolean;
  /** Time of the monotonic clock at which the node sent something or was resumed. */
  activeAt: number;
}

type Refusal = Exclude<OpenedArchiveRead, { readonly kind: "open" }>;

export class ArchiveReads implements LedgerArchive {
  readonly methods: ArchiveMethods["methods"];
  readonly stopping: ArchiveMethods["stopping"];
  readonly #links: NodeLinks;
  readonly #clock: Clock;
  readonly #answerMs: number;
  readonly #reads = new Set<OpenRead>();
  readonly #check: Disposable;

  constructor({ upstream, pool, clock, log }: LedgerDeps) {
    ({ methods: this.methods, stopping: this.stopping } = createArchiveMethods(upstream.methods));
    this.#clock = clock;
    const limits = feedLimits(upstream);
    this.#answerMs = limits.answerMs;
    this.#links = new NodeLinks({
      pool,
      clock,
      log,
      // The rate is not limited, because a read can have any number of events. The node waits while the client does
      // not read them.
      limits: { ...limits, baseRate: Infinity },
      maxPerLink: 1,
      maxLinks,
      lostMessage: "the connection of an archive read is lost",
    });
    this.#check = clock.every(checkMs, () => this.#endSilent());
  }

  async open(
    { name }: { readonly name: string },
    request: ArchiveRequest,
    signal?: AbortSignal,
  ): Promise<OpenedArchiveRead> {
    const method = this.methods.get(name);
    if (method === undefined || signal?.aborted === true) return { kind: "failed" };
    const lastEvents = new Set([method.events[1], method.errorEvent]);
    const isLast = (result: string): boolean => lastEvents.has(eventOf(result));
    const read: OpenRead = {
      method,
      request,
      asked: new Set(),
      subscription: new OwnSubscription({ isLast, maxWaiting }, () => this.#stop(read)),
      source: undefined,
      asking: undefined,
      pausedAt: this.#clock.monotonic(),
      hasResults: false,
      activeAt: 0,
    };
    const leave = (): void => read.subscription.close();
    signal?.addEventListener("abort", leave);
    const refusal = await this.#begin(read);
    signal?.removeEventListener("abort", leave);
    if (refusal !== undefined) return refusal;
    if (read.subscription.hasEnded) return { kind: "failed" };
    this.#reads.add(read);
    return { kind: "open", subscription: this.#clientOf(read) };
  }

  close(): void {
    this.#check[Symbol.dispose]();
    this.#links.close();
  }

  #clientOf(read: OpenRead): ClientArchiveRead {
    const { subscription } = read;
    return {
      start: (listener) => {
        subscription.start(listener);
        this.#resume(read);
      },
      pause: () => {
        read.pausedAt ??= this.#clock.monotonic();
        read.source?.link.connection.pause();
      },
      resume: () => this.#resume(read),
      close: () => subscription.close(),
    };
  }

  #resume(read: OpenRead): void {
    if (read.pausedAt === undefined) return;
    read.pausedAt = undefined;
    read.activeAt = this.#clock.monotonic();
    read.source?.link.connection.resume();
  }

  /**
   * Asks nodes that have not been asked, until one accepts the read or the client disconnects. Returns undefined when a
   * node has accepted it. The promise does not reject.
   */
  async #begin(read: OpenRead): Promise<Refusal | undefined> {
    const { method, request, asked } = read;
    const block = { hash: request.hash, number: undefined, needsState: true };
    let refusal: Refusal = { kind: "failed" };
    while (asked.size < maxNodes && !read.subscription.hasEnded) {
      const link = this.#links.take({ block, except: asked });
      if (link === "full") return { kind: "full" };
      if (link === undefined) return refusal;
      asked.add(link.target.label);
      read.asking = link;
      const { connection } = link;
      const answer = (await connection.opened)
        ? await connection.subscribe(method.name, request.params, (id) =>
            this.#attach(read, link, id),
          )
        : undefined;
      read.asking = undefined;
      if (answer?.kind === "result") {
        // The client may have disconnected while the read was moved to this node.
        if (read.subscription.hasEnded) this.#stop(read);
        return undefined;
      }
      this.#links.release(link);
      if (answer === undefined) continue;
      refusal = { kind: "error", error: answer.text };
      if (hasInvalidParams(answer.text)) return refusal;
    }
    return refusal;
  }

  #attach(read: OpenRead, link: NodeLink, id: string): (result: string) => void {
    read.source = { link, id };
    read.activeAt = this.#clock.monotonic();
    link.open.add(read.subscription);
    if (read.pausedAt !== undefined) link.connection.pause();
    return (result) => {
      if (read.source?.link === link) this.#receive(read, link, result);
    };
  }

  #receive(read: OpenRead, link: NodeLink, result: string): void {
    const { method, subscription } = read;
    read.activeAt = this.#clock.monotonic();
    const event = eventOf(result);
    if (event === method.errorEvent && !read.hasResults && this.#hasOtherNode(read)) {
      void this.#move(read, result);
      return;
    }
    if (event !== method.errorEvent && !method.events.includes(event)) {
      return this.#links.disconnect(link);
    }
    read.hasResults = true;
    // The node has finished, so nothing has to be stopped when the subscription ends.
    if (event === method.errorEvent || event === method.events[1]) this.#detach(read);
    subscription.receive(result);
  }

  #hasOtherNode({ asked }: OpenRead): boolean {
    return asked.size < Math.min(maxNodes, this.#links.nodes);
  }

  /**
   * Reads from another node. `failure`: the event of the first node, which the client gets if there is no other node.
   * The promise does not reject.
   */
  async #move(read: OpenRead, failure: string): Promise<void> {
    this.#detach(read);
    const refusal = await this.#begin(read);
    if (refusal === undefined) return;
    read.hasResults = true;
    read.subscription.receive(failure);
  }

  #detach(read: OpenRead): void {
    const { source } = read;
    if (source === undefined) return;
    const { link, id } = source;
    read.source = undefined;
    link.open.delete(read.subscription);
    link.connection.forget(id);
    link.connection.resume();
    this.#links.release(link);
  }

  #stop(read: OpenRead): void {
    this.#reads.delete(read);
    const { source, asking, method, pausedAt } = read;
    // The answer of a node that is still being asked is not needed any more.
    if (source === undefined && asking !== undefined) this.#links.disconnect(asking);
    if (source === undefined) return;
    const { connection } = source.link;
    for (const name of method.stop) connection.send(name, `[${source.id}]`, () => {});
    this.#detach(read);
    // The node has sent results that the gateway has not read. Closing the connection discards them.
    if (pausedAt !== undefined) this.#links.disconnect(source.link);
  }

  /** Reads that are not paused and get nothing from their node, and reads of clients that do not read, are ended. */
  #endSilent(): void {
    const now = this.#clock.monotonic();
    for (const { source, pausedAt, activeAt, subscription } of this.#reads) {
      if (pausedAt !== undefined) {
        if (pausedAt < now - maxPausedMs) subscription.lose("clientTooSlow");
      } else if (source !== undefined && activeAt < now - this.#answerMs) {
        this.#links.disconnect(source.link);
      }
    }
  }
}

function eventOf(result: string): string {
  const event = parseOrUndefined(memberAt(result, ["event"]));
  return typeof event === "string" ? event : "";
}

function hasInvalidParams(error: string): boolean {
  const value = parseOrUndefined(error);
  return isObject(value) && value["code"] === invalidParamsCode;
}
