/**
 * The pool uses no named statements and no state of a session, so that it works through PgBouncer in transaction mode.
 */
import { Pool, types, type CustomTypesConfig, type PoolClient } from "pg";
import type { Metrics } from "../../contract/metrics.ts";
import type { ConnectionLimits, Postgres, RunStatement } from "../../contract/store.ts";
import { countRoundTrips } from "../round-trips.ts";
import type { Row } from "../row.ts";
import { placeOf, PostgresFailure } from "./failure.ts";
import { Socket } from "node:net";

export interface PostgresOptions {
  readonly url: string;
  readonly replica: string;
  readonly metrics: Metrics;
  /** Time limit of a statement in milliseconds. Default: 10 seconds, for commands. */
  readonly statementMs?: number;
}

export interface PostgresPool extends Postgres {
  /** Ends all connections, those of `separate` included. Statements that still run fail. */
  close(): Promise<void>;
}

const maxConnections = 4;
/** If this many statements wait for a connection, further ones fail at once. */
const maxWaiting = 1_000;
/** Time limit for opening a connection, and for waiting for a free one. */
const connectMs = 5_000;
/** For commands, which may wait longer than requests: a smaller limit would fail statements that are only slow. */
const defaultStatementMs = 10_000;
const idleMs = 30_000;

export function openPostgres(options: PostgresOptions): PostgresPool {
  const { url, replica, metrics, statementMs = defaultStatementMs } = options;
  const up = metrics
    .gauge("sluice_store_postgres_up", "1 if PostgreSQL answered the last statement, else 0.")
    .with({});
  const roundTrips = countRoundTrips(metrics, "postgres");
  const sockets = new Set<GuardedSocket>();
  const pools: Pool[] = [];

  const answered = async <T>(waiting: Promise<T>): Promise<T> => {
    try {
      const result = await waiting;
      up.set(1);
      return result;
    } catch (error) {
      const failure = PostgresFailure.from(error);
      up.set(failure.isRefused ? 1 : 0);
      throw failure;
    }
  };
  const runOn = async (
    client: PoolClient,
    lane: string,
    text: string,
    values: readonly unknown[],
  ): Promise<readonly Row[]> => {
    roundTrips(lane).add(1);
    return (await answered(client.query<Row>(text, [...values]))).rows;
  };

  /**
   * Rolls back a failed transaction, so that its locks are released before the caller gets the error. Returns false if
   * the connection must not be used again. The server then rolls back when it is closed.
   */
  const rollBack = async (client: PoolClient, lane: string): Promise<boolean> => {
    try {
      await runOn(client, lane, "ROLLBACK", []);
      return true;
    } catch {
      return false;
    }
  };

  const open = (limits: ConnectionLimits): Postgres => {
    const pool = new Pool({
      connectionString: url,
      application_name: `sluice ${replica}`.slice(0, 63),
      max: limits.connections,
      connectionTimeoutMillis: connectMs,
      idleTimeoutMillis: idleMs,
      query_timeout: limits.statementMs,
      keepAlive: true,
      types: checkedTypes,
      stream() {
        const socket = new GuardedSocket();
        sockets.add(socket);
        socket.once("close", () => sockets.delete(socket));
        return socket;
      },
    });
    pools.push(pool);
    // If a connection breaks, its statement fails. Without these listeners, the event would end the process.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const connect = (): Promise<PoolClient> =>
      pool.waitingCount < maxWaiting
        ? answered(pool.connect())
        : Promise.reject(
            PostgresFailure.from(
              new Error(`${maxWaiting} statements are already waiting for a connection`),
            ),
          );
    return {
      replica,
      place: placeOf(url),
      async query(lane, text, values = []) {
        const client = await connect();
        try {
          const rows = await runOn(client, lane, text, values);
          client.release();
          return rows;
        } catch (error) {
          // After a time-out or a break, the answer may still arrive, so the connection is not used again.
          client.release(!(error instanceof PostgresFailure && error.isRefused));
          throw error;
        }
      },
      async transaction(lane, work) {
        const client = await connect();
        let hasEnded = false;
        /** Statements without an answer: those that run, and those whose answer was lost. */
        let unanswered = 0;
        const send: RunStatement = async (text, values = []) => {
          unanswered++;
          try {
            const rows = await runOn(client, lane, text, values);
            unanswered--;
            return rows;
          } catch (error) {
            if (error instanceof PostgresFailure && error.isRefused) unanswered--;
            throw error;
          }
        };
        const run: RunStatement = (text, values) =>
          hasEnded ? Promise.reject(new Error("the transaction has ended")) : send(text, values);
        try {
          await send("BEGIN");
          const result = await work(run);
          hasEnded = true;
          await send("COMMIT");
          client.release();
          return result;
        } catch (error) {
          hasEnded = true;
          client.release(unanswered > 0 || !(await rollBack(client, lane)));
          throw error;
        }
      },
      separate: open,
    };
  };
  return {
    ...open({ connections: maxConnections, statementMs }),
    async close() {
      const ended = pools.map((pool) => pool.end());
      for (const socket of sockets) socket.destroy();
      await Promise.all(ended);
    },
  };
}

const bigintOid = 20;

/** Reads bigint columns as numbers. Amounts are at most 2^53 - 1; a larger one fails its statement. */
const checkedTypes: CustomTypesConfig = {
  getTypeParser(oid, format) {
    const parser: unknown = types.getTypeParser(oid, format);
    // The types of `pg` declare one overload per type, and `any` as the result.
    return ((oid as number) === bigintOid ? safeInteger : parser) as (text: string) => unknown;
  },
};

function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`${text} is not a safe integer`);
  return value;
}

/**
 * An exception in a listener destroys the socket instead of ending the process. `pg` parses the server's messages in a
 * listener for `data` and throws for messages that no PostgreSQL sends. With TLS, only the handshake runs in these
 * listeners; afterwards the server is one that has proved its identity.
 */
class GuardedSocket extends Socket {
  override emit(event: string | symbol, ...args: unknown[]): boolean {
    if (event === "error" && this.listenerCount("error") === 0) return false;
    try {
      return super.emit(event, ...args);
    } catch (error) {
      this.destroy(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  }
}
