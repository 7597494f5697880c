/**
 * The state of a shared subscription: the notifications that its clients have been sent. It decides which notifications
 * of a node are new, so that nothing is repeated or missing after a move to another node, and what a new client gets
 * first.
 */
import { createHash } from "node:crypto";
import type { Awaitable } from "sluice-gateway/plugin";

/**
 * The notifications to pass on, as JSON text. `invalid`: the node breaks the protocol, so another one must be used.
 * `gap`: the clients have missed too much for it to be fetched.
 */
export type Accepted = readonly string[] | "invalid" | "gap";

export interface HeaderSource {
  /** Number of the best block that any node has reported when it was probed. Undefined if it is not known. */
  readonly best: number | undefined;
  /** Returns the header of a block as JSON text. Undefined if the node does not answer with a header. */
  header(hash: string): Promise<string | undefined>;
}

export interface NotificationState {
  /** `result`: JSON text of the node. Calls do not overlap. */
  accept(result: string, source: HeaderSource): Awaitable<Accepted>;
  /** The next notification is the first one of another node. */
  moved(): void;
  /** The first notification for a new client, as JSON text. Undefined if there is none. */
  readonly current: string | undefined;
  /** Number of the last head that this node has sent. Undefined before the first one, and for anything but heads. */
  readonly height?: number | undefined;
}

const nothing: readonly string[] = [];

/** A value such as the runtime version: it is passed on after a move only if it has changed. */
export class ValueState implements NotificationState {
  current: string | undefined;
  #hasMoved = false;

  accept(result: string): Accepted {
    const isKnown = this.#hasMoved && result === this.current;
    this.#hasMoved = false;
    this.current = result;
    return isKnown ? nothing : [result];
  }

  moved(): void {
    this.#hasMoved = true;
  }
}

/** Number of events that are remembered, to recognise repeated ones. */
const maxRemembered = 64;

/** Events such as justifications, which a new client does not get. A node that lags does not repeat the last ones. */
export class EventState implements NotificationState {
  readonly current = undefined;
  readonly #seen = new Set<string>();

  accept(result: string): Accepted {
    const digest = createHash("sha256").update(result).digest("base64");
    if (this.#seen.has(digest)) return nothing;
    this.#seen.add(digest);
    for (const oldest of this.#seen) {
      if (this.#seen.size <= maxRemembered) break;
      this.#seen.delete(oldest);
    }
    return [result];
  }

  moved(): void {}
}
