/**
 * The latest exchanges, for `sluice explain`. Refused ones have a place of their own, so that they are not crowded out
 * by those that went well. Memory is bounded: what is kept of an exchange is some hundred bytes.
 */
import type { Outcome } from "../../plugin.ts";
import type { LiveExchange } from "../run/exchange.ts";
import { Story, type Told } from "./story.ts";

const mostKept = 2_048;
/** Clients may give one id to many requests. */
const mostTold = 20;

export class Stories {
  readonly #passed = new Ring();
  readonly #refused = new Ring();

  /** An exchange of a route without the step request-id cannot be asked for. */
  settled(x: LiveExchange, outcome: Outcome, ms: number): void {
    if (x.peek("requestId") === undefined) return;
    const ring = x.sent.code === undefined ? this.#passed : this.#refused;
    ring.next().write(x, x.sent, outcome, ms);
  }

  /** One that is being answered. */
  tellLive(x: LiveExchange, sent: { status: number; code: string | undefined }): Told {
    const ms = x.runtime.clock.monotonic() - x.arrivedMonotonic;
    return new Story().write(x, sent, undefined, ms).tell();
  }

  /** Those with this id that are still known, newest first. */
  find(requestId: string): readonly Told[] {
    return [this.#passed, this.#refused]
      .flatMap((ring) => ring.find(requestId))
      .map((story) => story.tell())
      .sort((a, b) => (a.at < b.at ? 1 : -1))
      .slice(0, mostTold);
  }
}

class Ring {
  readonly #stories: Story[] = [];
  #newest = -1;

  /** The place of the oldest one, once all are taken. */
  next(): Story {
    this.#newest = (this.#newest + 1) % mostKept;
    return (this.#stories[this.#newest] ??= new Story());
  }

  find(requestId: string): Story[] {
    return this.#stories.filter((story) => story.requestId === requestId);
  }
}
