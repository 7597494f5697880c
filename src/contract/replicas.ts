/** `host.store.replicas`. Implemented in src/store/postgres/replicas. */
import type { Awaitable } from "./phase.ts";

/**
 * The other gateways that use the same database, and messages between them. A message usually arrives within 250 ms. It
 * is encrypted, and it is lost if the database cannot be reached or its receiver ends. Values may be of any type that
 * CBOR supports: JSON values, undefined and Uint8Array.
 */
export interface Replicas {
  /** Unique id of this start of this gateway. */
  readonly id: string;
  /**
   * Shows others how far this gateway has come with some work, such as the number of the last change that it has
   * applied. It is written with the next look of the session.
   */
  mark(name: string, value: number): void;
  /**
   * Sends a message. `to`: id of the receiver; by default, all other gateways that run. Never throws: a message that
   * cannot be sent is logged and dropped.
   */
  send(topic: string, value: unknown, to?: string): void;
  /**
   * Calls `receive` with each message of this topic, until it is disposed of. What `receive` returns is the answer if
   * the message asks for one. A topic may have several receivers; the newest one answers.
   */
  receive(topic: string, receive: (value: unknown) => Awaitable<unknown>): Disposable;
  /**
   * Asks all other gateways and waits for their answers for at most a second. Returns one entry per gateway that has
   * sent a heartbeat in the last ten minutes and has not been stopped. Rejects with StoreError.
   */
  ask(topic: string, value: unknown): Promise<readonly ReplicaAnswer[]>;
}

export interface ReplicaAnswer {
  readonly id: string;
  /** Its name in the database, for people. */
  readonly name: string;
  /** The version of Sluice that it runs. */
  readonly version: string;
  /** Time since its last heartbeat, in milliseconds. */
  readonly heardMsAgo: number;
  /**
   * Undefined if it has not answered in time: it was killed, is disconnected or busy, or runs a release without this
   * topic.
   */
  readonly answer: { readonly value: unknown } | undefined;
}
