/**
 * Watches answers that wait for their reader: their memory, and the pace at which they are read. A client that reads
 * slower than a body may arrive is cut, also if it takes a few bytes from time to time. One timer serves all answers.
 */
import type { LiveExchange } from "../pipeline/run/exchange.ts";
import type { ReaderWatch, WaitingAnswer } from "../pipeline/run/runtime.ts";
import type { Clock } from "../plugin.ts";
import { LinkedList, type Linked } from "../base/linked-list.ts";
import { arrivalWindowMs, minArrivalBytes } from "./arrival-rate.ts";
import type { HeldBytes, HeldPart } from "../memory/held-bytes.ts";

export interface ReaderWatchOptions {
  readonly clock: Clock;
  readonly held: HeldBytes;
  /**
   * Time in milliseconds in which a reader must keep the pace on average. The kernel takes the bytes of an answer in
   * large steps, so a shorter time would cut steady readers.
   */
  readonly windowMs: number;
}

export function createReaderWatch(
  options: ReaderWatchOptions,
): ReaderWatch<LiveExchange> & Disposable {
  const { clock, held, windowMs } = options;
  const waiting = new LinkedList<Waiting>();
  const everyMs = Math.max(10, Math.min(1000, windowMs / 4));
  const timer = clock.every(everyMs, () => {
    const now = clock.monotonic();
    for (let answer = waiting.oldest; answer !== undefined;) {
      const { next }: Waiting = answer;
      answer.check(now, windowMs);
      answer = next;
    }
  });
  return {
    wait: (x) => {
      const answer = new Waiting(x, held, waiting, clock.monotonic());
      waiting.add(answer);
      answer.update();
      return answer;
    },
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}

class Waiting implements WaitingAnswer, Linked<Waiting> {
  previous: Waiting | undefined = undefined;
  next: Waiting | undefined = undefined;
  readonly #x: LiveExchange;
  readonly #all: LinkedList<Waiting>;
  readonly #part: HeldPart;
  /** Bytes that the client had taken when it last proved fast enough, and the monotonic time. */
  #paceBytes: number;
  #paceAt: number;

  constructor(x: LiveExchange, held: HeldBytes, all: LinkedList<Waiting>, now: number) {
    this.#x = x;
    this.#all = all;
    this.#part = held.hold(x.callerId, "answer", () => x.cutOff("timedOut"));
    this.#paceBytes = x.takenBytes;
    this.#paceAt = now;
  }

  update(): void {
    if (!this.#part.resize(this.#x.unsentBytes)) this.#x.cutOff("timedOut");
  }

  check(now: number, windowMs: number): void {
    const taken = this.#x.takenBytes;
    if (taken - this.#paceBytes >= minArrivalBytes * (windowMs / arrivalWindowMs)) {
      this.#paceBytes = taken;
      this.#paceAt = now;
    }
    if (now - this.#paceAt >= windowMs) this.#x.cutOff("timedOut");
    else this.update();
  }

  [Symbol.dispose](): void {
    this.#all.remove(this);
    this.#part[Symbol.dispose]();
  }
}
