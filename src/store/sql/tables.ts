import type { CopiedTable } from "../postgres/copy-rows.ts";
import type { Migration } from "../postgres/migrations.ts";
import { postgresDialect, type Dialect } from "./dialect.ts";

/** A script that creates tables, in both dialects. It runs once per store. */
export interface Script extends Pick<Migration, "name" | "excludesOlder"> {
  /** Written in the dialect of PostgreSQL: see `RunSql`. */
  readonly sql: string | ((dialect: Dialect) => string);
}

/** A database of an earlier release, whose rows move to the tables when the data folder is opened. */
export interface Takeover {
  readonly file: string;
  /** Schema version of the file. Default: 1. */
  readonly version?: number;
  /**
   * Statements of SQLite that copy the rows from the schema `old`. They may run again after an interruption, so they
   * must ignore rows that exist.
   */
  readonly sql: string;
}

/** Returns the schema version of a file whose rows have been taken over. Earlier releases refuse it as newer. */
export function takenOverVersion({ version = 1 }: Takeover): number {
  return version + 1;
}

export interface Tables {
  readonly scripts: readonly Script[];
  readonly takeovers: readonly Takeover[];
  /** The tables whose rows `sluice store migrate` copies to PostgreSQL. */
  readonly moved: readonly CopiedTable[];
}

export function textOf({ sql }: Script, dialect: Dialect): string {
  return typeof sql === "string" ? sql : sql(dialect);
}

export function postgresScripts({ scripts }: Tables): readonly Migration[] {
  return scripts.map((script) => ({ ...script, sql: textOf(script, postgresDialect) }));
}

export function joined(parts: readonly Tables[]): Tables {
  return {
    scripts: parts.flatMap(({ scripts }) => scripts),
    takeovers: parts.flatMap(({ takeovers }) => takeovers),
    moved: parts.flatMap(({ moved }) => moved),
  };
}
