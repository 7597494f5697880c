import { AsyncLocalStorage } from "node:async_hooks";
import type { RunSql, Sql } from "sluice-gateway/plugin";

export interface JoinedSql extends Sql {
  /** Calls `listener` after every commit, before the result of the transaction is returned. It must not fail. */
  onCommit(listener: () => Promise<void>): void;
}

interface OpenTransaction {
  readonly run: RunSql;
  isOpen: boolean;
}

/** Statements and transactions that are started inside the work of a transaction join it, even after a promise. */
export function joinTransactions(sql: Sql): JoinedSql {
  const context = new AsyncLocalStorage<OpenTransaction>();
  let committed = async (): Promise<void> => {};
  /** Work that outlives its transaction gets transactions of its own. */
  const current = (): RunSql | undefined => {
    const open = context.getStore();
    return open?.isOpen === true ? open.run : undefined;
  };
  return {
    query: (text, values) => (current() ?? sql.query)(text, values),
    async transaction(work) {
      const joined = current();
      if (joined !== undefined) return work(joined);
      const result = await sql.transaction(async (run) => {
        const open = { run, isOpen: true };
        try {
          return await context.run(open, () => work(run));
        } finally {
          open.isOpen = false;
        }
      });
      await committed();
      return result;
    },
    onCommit(listener) {
      committed = listener;
    },
  };
}
