/**
 * Ids that can be used once, for example of confirmation tokens, and ids that have ended early, for example of
 * sessions. Both are kept in one table in the data folder.
 */
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import type { Clock } from "../contract/clock.ts";
import type { Claims } from "../contract/store.ts";
import { openDatabase } from "./sqlite.ts";
import { explain } from "./store-error.ts";

const migrations = [
  "CREATE TABLE claims (id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID, STRICT;" +
    "CREATE INDEX claims_until ON claims (until);",
];

/** The schema version of claims.db that this release writes. */
export const claimsVersion = migrations.length;

const sweepMs = 60_000;

export interface ClaimsService extends Claims {
  claim(id: string, until: number): boolean;
  end(id: string, until: number): void;
  close(): void;
}

/** Throws StoreError if the data folder cannot be used. */
export function openClaimsDatabase(dataDir: string): DatabaseSync {
  return openDatabase(join(dataDir, "claims.db"), migrations);
}

/** Opens the claims. Throws StoreError if the data folder cannot be used. */
export function openClaims(dataDir: string, clock: Clock): ClaimsService {
  const db = openClaimsDatabase(dataDir);
  const insert = db.prepare("INSERT INTO claims (id, until) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const find = db.prepare("SELECT 1 FROM claims WHERE id = ?");
  const forget = db.prepare("DELETE FROM claims WHERE until <= ?");
  const sweep = clock.every(sweepMs, () => {
    try {
      forget.run(clock.now());
    } catch {
      // The disk is full or another process writes. The next sweep deletes what this one leaves.
    }
  });
  const explained = <T>(work: () => T): T => {
    try {
      return work();
    } catch (error) {
      throw explain(error, "claims.db");
    }
  };
  return {
    now: () => clock.now(),
    claim: (id, until) =>
      explained(() => until > clock.now() && insert.run(id, until).changes === 1),
    end: (id, until) => void explained(() => insert.run(id, until)),
    hasEnded: (id) => explained(() => find.get(id) !== undefined),
    close() {
      sweep[Symbol.dispose]();
      db.close();
    },
  };
}
