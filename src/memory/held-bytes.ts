/**
 * Counts every byte that clients make the gateway hold, against one bound: bodies and messages that arrive, whole
 * requests that wait for their backend, answers that wait for their reader, results that are being built, and values that
 * subscriptions keep.
 *
 * A caller may hold half of the bound, apart from messages. When all callers together reach it, the newest part of the
 * caller that holds the most is refused first, among the callers that hold several parts. If every caller holds a single
 * one, the newest part is refused, because older ones are closer to completion.
 */
import type { MemoryHold, MemoryUse } from "../contract/memory.ts";
import { LinkedList, type Linked } from "../base/linked-list.ts";
import type { Counter, Gauge, Metrics } from "../plugin.ts";
import type { SharedCount, SharedCounts } from "./shared-count.ts";
import type { ExceededLimit } from "./unfinished-bytes.ts";

/** `body` and `message` arrive; `request` has arrived and waits for its backend; `answer` waits for its reader. */
export type HeldKind = "body" | "message" | "answer" | MemoryUse;

const callerShare = 0.5;

interface Owner {
  readonly name: string;
  bytes: number;
  readonly shared: SharedCount | undefined;
  readonly parts: LinkedList<HeldPart>;
}

/** The bytes of all threads of the process. */
export interface SharedBytes {
  readonly total: SharedCount;
  readonly callers: SharedCounts;
}

const always = (): boolean => true;

interface KindMetrics {
  readonly bytes: Gauge;
  readonly refusals: Readonly<Record<ExceededLimit, Counter>>;
}

export class HeldBytes {
  readonly maxBytes: number;
  readonly #owners = new Map<string, Owner>();
  readonly #metrics: Readonly<Record<HeldKind, KindMetrics>>;
  readonly #bytes: Record<HeldKind, number> = {
    body: 0,
    message: 0,
    request: 0,
    answer: 0,
    result: 0,
    subscription: 0,
  };
  readonly #shared: SharedBytes | undefined;
  #total = 0;
  #count = 0;

  constructor(maxBytes: number, metrics: Metrics, shared?: SharedBytes) {
    this.maxBytes = maxBytes;
    this.#shared = shared;
    this.#metrics = kindMetrics(metrics);
  }

  bytesOf(kind: HeldKind): number {
    return this.#bytes[kind];
  }

  countOf(owner: string, kind: HeldKind): number {
    let count = 0;
    let part = this.#owners.get(owner)?.parts.oldest;
    for (; part !== undefined; part = part.next) if (part.kind === kind) count++;
    return count;
  }

  /**
   * Starts to count a part, with 0 bytes. `onRefused`: called when the part is refused in favour of another caller. It
   * has been disposed of then, and its bytes must be released. A part without it is never chosen. `mayRefuse`: whether
   * the part can be chosen now.
   */
  hold(
    name: string,
    kind: HeldKind,
    onRefused?: () => void,
    mayRefuse: () => boolean = always,
  ): HeldPart {
    const owner = this.#owners.get(name) ?? {
      name,
      bytes: 0,
      shared: this.#shared?.callers.of(name),
      parts: new LinkedList<HeldPart>(),
    };
    this.#owners.set(name, owner);
    const part = new HeldPart(this, owner, kind, this.#count++, onRefused, mayRefuse);
    owner.parts.add(part);
    return part;
  }

  /** Called by a part, like `moved` and `removed`. Returns the limit that its growth would exceed. */
  grow(part: HeldPart, more: number): ExceededLimit | undefined {
    if (more > 0) {
      const exceeded = this.#exceeded(part, more);
      if (exceeded !== undefined) {
        this.#metrics[part.kind].refusals[exceeded].add(1);
        return exceeded;
      }
    }
    this.#add(part, more);
    return undefined;
  }

  moved({ bytes }: HeldPart, from: HeldKind, to: HeldKind): void {
    this.#addTo(from, -bytes);
    this.#addTo(to, bytes);
  }

  removed(part: HeldPart, owner: Owner): void {
    this.#add(part, -part.bytes);
    owner.parts.remove(part);
    if (owner.parts.size === 0) this.#owners.delete(owner.name);
  }

  #exceeded(part: HeldPart, more: number): ExceededLimit | undefined {
    // One connection has one message, whose size is limited.
    const share = part.kind === "message" ? 1 : callerShare;
    const { bytes, shared } = part.owner;
    if ((shared?.total ?? bytes) + more > this.maxBytes * share) return "owner";
    while ((this.#shared?.total.total ?? this.#total) + more > this.maxBytes) {
      const refused = this.#newestOfDearest(part, more);
      if (refused === undefined || refused === part) return "total";
      this.#metrics[refused.kind].refusals.total.add(1);
      refused.refuse();
    }
    return undefined;
  }

  #newestOfDearest(asking: HeldPart, more: number): HeldPart | undefined {
    let dearest: Owner | undefined;
    let dearestBytes = 0;
    let newest: HeldPart | undefined;
    for (const owner of this.#owners.values()) {
      const youngest = newestRefusable(owner, asking);
      if (youngest === undefined) continue;
      if (newest === undefined || youngest.order > newest.order) newest = youngest;
      const bytes = owner === asking.owner ? owner.bytes + more : owner.bytes;
      if (owner.parts.size < 2 || bytes <= dearestBytes) continue;
      dearest = owner;
      dearestBytes = bytes;
    }
    return dearest === undefined ? newest : newestRefusable(dearest, asking);
  }

  #add({ kind, owner }: HeldPart, more: number): void {
    if (more === 0) return;
    owner.bytes += more;
    this.#total += more;
    owner.shared?.add(more);
    this.#shared?.total.add(more);
    this.#addTo(kind, more);
  }

  #addTo(kind: HeldKind, more: number): void {
    this.#bytes[kind] += more;
    this.#metrics[kind].bytes.set(this.#bytes[kind]);
  }
}

/** Refusing a part without bytes would free nothing. */
function newestRefusable({ parts }: Owner, asking: HeldPart): HeldPart | undefined {
  let part = parts.youngest;
  while (part !== undefined && part !== asking && (!part.isRefusable || part.bytes === 0)) {
    part = part.previous;
  }
  return part;
}

/** One part that is held: a body, an answer … Dispose of it when its bytes are released. */
export class HeldPart implements MemoryHold, Linked<HeldPart> {
  kind: HeldKind;
  readonly owner: Owner;
  /** Greater for parts that were held later. */
  readonly order: number;
  previous: HeldPart | undefined = undefined;
  next: HeldPart | undefined = undefined;
  bytes = 0;
  readonly #all: HeldBytes;
  readonly #onRefused: (() => void) | undefined;
  readonly #mayRefuse: () => boolean;
  #isDisposed = false;

  constructor(
    all: HeldBytes,
    owner: Owner,
    kind: HeldKind,
    order: number,
    onRefused: (() => void) | undefined,
    mayRefuse: () => boolean,
  ) {
    this.#all = all;
    this.owner = owner;
    this.kind = kind;
    this.order = order;
    this.#onRefused = onRefused;
    this.#mayRefuse = mayRefuse;
  }

  get isRefusable(): boolean {
    return this.#onRefused !== undefined && this.#mayRefuse();
  }

  become(kind: HeldKind): void {
    if (!this.#isDisposed) this.#all.moved(this, this.kind, kind);
    this.kind = kind;
  }

  resize(bytes: number): boolean {
    return this.exceeded(bytes) === undefined;
  }

  /** Sets the number of bytes. Returns the limit that this would exceed; then nothing changes. */
  exceeded(bytes: number): ExceededLimit | undefined {
    if (this.#isDisposed) return undefined;
    const exceeded = this.#all.grow(this, bytes - this.bytes);
    if (exceeded === undefined) this.bytes = bytes;
    return exceeded;
  }

  refuse(): void {
    this[Symbol.dispose]();
    this.#onRefused?.();
  }

  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#all.removed(this, this.owner);
    this.bytes = 0;
  }
}

function kindMetrics(metrics: Metrics): Readonly<Record<HeldKind, KindMetrics>> {
  const bytes = metrics.gauge(
    "sluice_held_bytes",
    "Bytes that clients make the gateway hold: bodies and messages that arrive, requests that wait for their backend, answers that wait for their reader, results that are being built, and values of subscriptions.",
    ["kind"],
  );
  const refusals = metrics.counter(
    "sluice_held_refusals_total",
    "Bodies, messages, requests, answers, results and subscriptions that were refused because one caller (owner) or all callers (total) held too many bytes.",
    ["kind", "limit"],
  );
  const of = (kind: HeldKind): KindMetrics => {
    const gauge = bytes.with({ kind });
    gauge.set(0);
    return {
      bytes: gauge,
      refusals: {
        owner: refusals.with({ kind, limit: "owner" }),
        total: refusals.with({ kind, limit: "total" }),
      },
    };
  };
  return {
    body: of("body"),
    message: of("message"),
    request: of("request"),
    answer: of("answer"),
    result: of("result"),
    subscription: of("subscription"),
  };
}
