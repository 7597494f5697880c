/**
 * The state of a shared subscription: the notifications that its clients have been sent. It decides which notifications
 * of a node are new, so that nothing is repeated or missing after a move to another node, and what a new client gets
 * first.
 */
import type { Awaitable } from "sluice-gateway/plugin";

/**
 * The notifications to pass on, as JSON text. `invalid`: the node breaks the protocol, so another one must be used.
 * `gap`: the clients have missed too much for it to be fetched. `tooLarge`: the values are larger than the limit of one
 * message, so no node could send them to a new subscriber.
 */
export type Accepted = readonly string[] | "invalid" | "gap" | "tooLarge";

/** Reads headers from the node that sent the notification. */
export interface HeaderSource {
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

/** Events such as justifications, which a new client does not get. The last one is not repeated after a move. */
export class EventState implements NotificationState {
  readonly current = undefined;
  #last: string | undefined;

  accept(result: string): Accepted {
    if (result === this.#last) return nothing;
    this.#last = result;
    return [result];
  }

  moved(): void {}
}
