/** Transactions of one SQLite connection that may wait for promises. They run one after the other. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { DatabaseSync } from "node:sqlite";
import type { Awaitable, Clock } from "sluice-gateway/plugin";
import { explain, StoreError } from "sluice-gateway/store";

export interface TransactionsDeps {
  readonly db: DatabaseSync;
  /** Name of the database for errors. */
  readonly file: string;
  /** Maximum duration of a transaction that waits for a promise. While it waits, no other transaction can start. */
  readonly maxMs: number;
  readonly clock: Pick<Clock, "after">;
  /** Called after every commit, before the result is returned. Must not throw. */
  readonly committed: () => void;
}

interface OpenTransaction {
  /** True after `maxMs`. The work may still run, but it must not write any more. */
  expired: boolean;
}

/**
 * A connection has only one transaction at a time. Without a queue, a write of one request would become part of the
 * transaction of another request that waits for a promise.
 */
export class Transactions {
  readonly #deps: TransactionsDeps;
  readonly #context = new AsyncLocalStorage<OpenTransaction>();
  readonly #waiting: (() => void)[] = [];
  #open: OpenTransaction | undefined;
  #isStarting = false;

  constructor(deps: TransactionsDeps) {
    this.#deps = deps;
  }

  /**
   * Runs `work` in a transaction, which commits when `work` has succeeded, and rolls back when it has failed. Inside the
   * work of an open transaction, it joins that transaction. If another transaction is open, it runs after that one.
   *
   * Returns a promise only if `work` does, or if it must wait. Fails with the error of `work`, or with a StoreError if
   * the transaction could not start or commit.
   */
  run<T>(work: () => Awaitable<T>): Awaitable<T> {
    const current = this.#context.getStore();
    if (current?.expired === true) throw this.#tooLong();
    if (this.#open === undefined) return this.#begin(work);
    if (current === this.#open) return this.#join(work);
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const begin = AsyncLocalStorage.bind(() => {
      try {
        resolve(this.#begin(work));
      } catch (error) {
        reject(error);
      }
    });
    this.#waiting.push(begin);
    return promise;
  }

  /** SQLite rolls back by itself on a full disk. A later write would then be committed without the earlier ones. */
  #join<T>(work: () => T): T {
    if (!this.#isActive()) throw this.#rolledBack();
    return work();
  }

  #begin<T>(work: () => Awaitable<T>): Awaitable<T> {
    const transaction: OpenTransaction = { expired: false };
    this.#open = transaction;
    let result: Awaitable<T>;
    try {
      this.#execute("BEGIN IMMEDIATE");
      result = this.#context.run(transaction, work);
      if (!(result instanceof Promise)) this.#commit();
    } catch (error) {
      this.#rollBack();
      this.#end();
      throw error;
    }
    if (result instanceof Promise) return this.#later(transaction, result);
    this.#end();
    return result;
  }

  async #later<T>(transaction: OpenTransaction, result: Promise<T>): Promise<T> {
    const limit = Promise.withResolvers<never>();
    const timer = this.#deps.clock.after(this.#deps.maxMs, () => {
      transaction.expired = true;
      limit.reject(this.#tooLong());
    });
    try {
      const value = await Promise.race([result, limit.promise]);
      this.#commit();
      return value;
    } catch (error) {
      this.#rollBack();
      throw error;
    } finally {
      timer[Symbol.dispose]();
      this.#end();
    }
  }

  #commit(): void {
    if (!this.#isActive()) throw this.#rolledBack();
    this.#execute("COMMIT");
    this.#deps.committed();
  }

  #rollBack(): void {
    // Some failures (full disk, I/O error) roll back by themselves.
    if (this.#isActive()) this.#deps.db.exec("ROLLBACK");
  }

  /** A connection that is closed has rolled back. */
  #isActive(): boolean {
    return this.#deps.db.isOpen && this.#deps.db.isTransaction;
  }

  /** Starts waiting transactions until one of them waits for a promise. */
  #end(): void {
    this.#open = undefined;
    if (this.#isStarting) return;
    this.#isStarting = true;
    while (this.#isFree()) this.#waiting.shift()?.();
    this.#isStarting = false;
  }

  #isFree(): boolean {
    return this.#open === undefined && this.#waiting.length > 0;
  }

  #execute(sql: string): void {
    try {
      this.#deps.db.exec(sql);
    } catch (error) {
      throw explain(error, this.#deps.file);
    }
  }

  #rolledBack(): StoreError {
    return new StoreError(
      "SLUICE_STORE_FAILED",
      `SQLite rolled back a transaction of ${this.#deps.file}`,
      "Check the disk and its free space.",
    );
  }

  #tooLong(): StoreError {
    return new StoreError(
      "SLUICE_STORE_BUSY",
      `a transaction of ${this.#deps.file} took longer than ${this.#deps.maxMs} ms and was rolled back`,
      "Report this as a bug, with the log lines before it.",
    );
  }
}
