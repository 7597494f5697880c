/** Memory that a plugin holds for a client. */

/** Use of the memory: a request until its backend answers, a result that is being built, or values of a subscription. */
export type MemoryUse = "request" | "result" | "subscription";

/** Memory that counts for one caller until it is disposed of. */
export interface MemoryHold extends Disposable {
  readonly bytes: number;
  /**
   * Sets the number of bytes. Returns false if the caller or all callers together would then hold too much; nothing
   * changes in this case, and the plugin must not keep the bytes. Fewer bytes are always accepted.
   */
  resize(bytes: number): boolean;
}

/**
 * Counts the memory that clients make plugins hold. It counts against the same bound as bodies that arrive and answers
 * that wait for their reader (`server.unfinishedBodyBytes`). Count what can become large or stays for long; what a call
 * returns at once needs no count.
 */
export interface Memory {
  /**
   * Starts to count for a caller, with 0 bytes. `caller`: the id of its key. `onRefused`: called when the memory is
   * needed for another caller. The hold has been disposed of then, and the plugin must release the bytes. Without it,
   * the hold is never chosen.
   */
  hold(caller: string, use: MemoryUse, onRefused?: () => void): MemoryHold;
}
