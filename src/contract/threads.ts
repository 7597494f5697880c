/** The threads of a process that serves with several (`server.threads`). */
import type { Awaitable } from "./phase.ts";

/**
 * What one thread knows of the others. The main thread has index 0: it owns the stores and the admin
 * listener, and serves no public request. The other threads have indexes from 1 to `slots - 1`, and no two threads that
 * run have the same one: a thread that replaces another one serves while the other one drains.
 *
 * Values are copied by the structured clone algorithm, so a Buffer arrives as a Uint8Array.
 */
export interface Threads {
  readonly index: number;
  /** The number of threads that serve. */
  readonly count: number;
  /** All indexes are below this number. */
  readonly slots: number;
  /**
   * Returns memory that all threads of the process share, full of zeros at first. `name` belongs to one plugin or part of
   * the core. `bytes` must be the same in all threads. The calling thread waits for the main thread, 10 s at most.
   */
  memory(name: string, bytes: number): SharedArrayBuffer;
  /**
   * Asks another thread, by default the main thread, where `serve` must have been called with the same name. Rejects
   * with a copy of the answer's error (message, `code`, `remedy`), or with an Error if the thread ends or does not answer
   * within 10 s.
   */
  call(name: string, value: unknown, to?: number): Promise<unknown>;
  /** Answers the calls of other threads, until it is disposed of. Of several with one name, the newest answers. */
  serve(name: string, answer: (value: unknown, from: number) => Awaitable<unknown>): Disposable;
  /** Sends a message to one thread, or to all others. A message to a thread that has ended is dropped. */
  send(topic: string, value: unknown, to?: number): void;
  /** Calls `receive` with each message of this topic, until it is disposed of. */
  receive(topic: string, receive: (value: unknown, from: number) => void): Disposable;
  /** Calls `ended` with the index of each thread that has ended, until it is disposed of. Only in the main thread. */
  onEnded(ended: (index: number) => void): Disposable;
}
