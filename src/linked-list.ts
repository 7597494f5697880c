/**
 * A list that is linked through its members, oldest first. Adding and removing allocate nothing.
 *
 * A Set would cost more garbage collection. When a Set outgrows its table, the old table keeps its members and points
 * to the new one, so one table in V8's old generation keeps all later members alive during minor collections (measured
 * on Node 26: 4 KB per request survived each scavenge; with this list it is 0.1 KB).
 */
export interface Linked<T> {
  before: T | undefined;
  behind: T | undefined;
}

export class LinkedList<T extends Linked<T>> {
  oldest: T | undefined;
  size = 0;
  #youngest: T | undefined;

  get youngest(): T | undefined {
    return this.#youngest;
  }

  add(member: T): void {
    this.size++;
    member.before = this.#youngest;
    if (this.#youngest === undefined) this.oldest = member;
    else this.#youngest.behind = member;
    this.#youngest = member;
  }

  /** Removes a member. Does nothing if it is not in the list. */
  remove(member: T): void {
    const { before, behind } = member;
    if (before === undefined && this.oldest !== member) return;
    this.size--;
    if (before === undefined) this.oldest = behind;
    else before.behind = behind;
    if (behind === undefined) this.#youngest = before;
    else behind.before = before;
    member.before = undefined;
    member.behind = undefined;
  }
}
