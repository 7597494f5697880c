/**
 * The commits of one exchange before its last one. A connection can stay open for days and make a commit per message, so
 * a commit is forgotten as soon as its charges are on disk.
 */
export class EarlierCommits {
  readonly #pending = new Set<Promise<void>>();
  /** The first commit that could not be written. Further ones have the same consequence. */
  #failed: Promise<void> | undefined;

  add(commit: Promise<void>): void {
    if (this.#failed !== undefined || this.#pending.has(commit)) return;
    this.#pending.add(commit);
    commit.then(
      () => this.#pending.delete(commit),
      () => {
        this.#failed ??= commit;
        this.#pending.clear();
      },
    );
  }

  /** The commits that are being written or, if there is one, only the first that could not be written. */
  get unwritten(): readonly Promise<void>[] {
    return this.#failed === undefined ? [...this.#pending] : [this.#failed];
  }
}
