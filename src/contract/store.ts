/** `host.store`, `host.seal` and `host.claims`. Implemented in src/store. */
import type { Replicas } from "./replicas.ts";
import type { Session } from "./session.ts";
import type { Sql } from "./sql.ts";

/** The embedded store, and the shared stores if they are configured. */
export interface Store {
  /**
   * Absolute path of the data folder. Each service has its own files in it. Only this gateway uses it while it runs.
   * If `postgres` is set, the folder may be missing, read-only or used by other gateways, until a service opens it with
   * `openDataFolder` of `sluice-gateway/internal/store`.
   */
  readonly folder: string;
  /**
   * Returns the tables of this gateway, in the data folder or in PostgreSQL. `lane`: the purpose of the round trips to
   * PostgreSQL, for metrics.
   */
  sql(lane: string): Sql;
  /** Looks at the tables, to follow the changes of other gateways and commands. */
  readonly session: Session;
  /** The PostgreSQL database of `store.postgres`. Undefined if it is not set. */
  readonly postgres: Postgres | undefined;
  /** The Redis of `store.redis`. Undefined if it is not set. */
  readonly redis: Redis | undefined;
  /** The other gateways on the database of `store.postgres`. Undefined if it is not set. */
  readonly replicas: Replicas | undefined;
}

/**
 * A PostgreSQL database that replicas may share. It may be behind a PgBouncer in transaction mode, so a statement must
 * not depend on the state of its session.
 */
export interface Postgres {
  /** Name of this gateway in the database, for people. */
  readonly replica: string;
  /** Host, port and name of the database, for messages. */
  readonly place: string;
  /**
   * Runs one statement, which is one transaction and one round trip. `lane`: the purpose of the round trip, for
   * metrics. `values`: the parameters `$1`, `$2` …; a Buffer is sent as it is, for `bytea` and `json`. Columns of type
   * bigint are numbers.
   *
   * Rejects with a DatabaseFailure. Unless `isRefused` is true, the statement may have been committed.
   */
  query(
    lane: string,
    text: string,
    values?: readonly unknown[],
  ): Promise<readonly Readonly<Record<string, unknown>>[]>;
  /**
   * Runs statements in one transaction on one connection, and commits it when `work` has succeeded. Rejects with a
   * DatabaseFailure, or with the error of `work`.
   */
  transaction<T>(lane: string, work: (run: RunStatement) => Promise<T>): Promise<T>;
  /**
   * Returns the same database with connections of its own, so that its statements and all others do not wait for each
   * other. The connections end with those of this database.
   */
  separate(limits: ConnectionLimits): Postgres;
}

export interface ConnectionLimits {
  /** Maximum number of connections. */
  readonly connections: number;
  /** Time limit of a statement in milliseconds. Its outcome is then unknown. */
  readonly statementMs: number;
}

/** Runs one statement of a transaction. Rejects with a DatabaseFailure. */
export type RunStatement = (
  text: string,
  values?: readonly unknown[],
) => Promise<readonly Readonly<Record<string, unknown>>[]>;

/** A statement that did not succeed. */
export interface DatabaseFailure extends Error {
  /** True if the server answered with an error, so that nothing was committed. */
  readonly isRefused: boolean;
  /** SQLSTATE of the server's error, or the code of the system's error. Undefined if there is none. */
  readonly code: string | undefined;
}

/**
 * A Redis that replicas share, for state that may be lost. It can become unreachable or lose its data at any time, so
 * each user of it must also work without it.
 */
export interface Redis {
  /** Whether Redis answers. This is checked every second, even if Redis has never answered. */
  readonly isUp: boolean;
  /**
   * Number of gateways that share the Redis, at least 1. While Redis does not answer, each gateway divides a limit by
   * it.
   */
  readonly replicas: number;
  /** Sets `replicas`. The service that counts the gateways calls it. */
  setReplicas(count: number): void;
  /**
   * Returns the key of a record. `kind`: a short word that separates records of different uses. `name`: any text, for
   * example an address; the key contains only its hash, which no other deployment can compute.
   */
  keyOf(kind: string, name: string): string;
  /**
   * Runs a Lua script with one key, `KEYS[1]`, and the arguments `ARGV[1]` … It takes one round trip. `lane`: the purpose
   * of the round trip, for metrics. Rejects if Redis does not answer within 50 ms, and at once while `isUp` is false.
   * The script may have run even then, or may still run.
   */
  run(
    lane: string,
    script: string,
    key: string,
    args: readonly (string | number)[],
  ): Promise<unknown>;
  /** The client of the package `ioredis`, for libraries that use one. Its commands have the same time limit. */
  readonly client: object;
}

/**
 * Makes tokens that only this deployment can make. They are signed with GATEWAY_SECRET, not encrypted: clients can read
 * their content. They are valid on every replica.
 */
export interface Seal {
  /**
   * Returns a token with this value. `purpose`: separates tokens of different uses. `expiresAt`: milliseconds since
   * 1970.
   */
  seal(purpose: string, value: object, expiresAt: number): string;
  /**
   * Returns the value of a token. Undefined if the token is forged or was made for another purpose. The caller must
   * check `expiresAt`.
   */
  open(
    purpose: string,
    token: string,
  ): { readonly value: unknown; readonly expiresAt: number } | undefined;
  /**
   * Returns a key of 32 bytes that only this deployment has, the same on every replica. `purpose`: a text without line
   * breaks that separates keys of different uses.
   */
  key(purpose: string): Buffer;
}

/**
 * Remembers ids across replicas and restarts: those that were used up, for example of a confirmation, which works once,
 * and those that ended early, for example of a session.
 */
export interface Claims {
  /**
   * Returns the time of the store in milliseconds since 1970. The clocks of replicas may differ, so everything that
   * `claim` uses up and that several replicas check must expire by this time.
   */
  now(): number;
  /**
   * Resolves to true for the first caller with this id until `until` (time of the store in milliseconds since 1970), and
   * to false for all others and after that time. The claim is durable when this has resolved. Rejects with a StoreError
   * if it is not known who was first. The id may be used up then.
   */
  claim(id: string, until: number): Promise<boolean>;
  /**
   * Ends the session, or whatever else has this id. `until`: the time at which it would have ended anyway, in
   * milliseconds since 1970. The end is durable when this has resolved. Other replicas follow within one second. Rejects
   * with a StoreError.
   */
  end(id: string, until: number): Promise<void>;
  /** Returns whether `end` was called for this id. */
  hasEnded(id: string): boolean;
}
