/** Accounts in a running gateway: who is calling, answered from memory, true to the database within a second. */
import { hash } from "node:crypto";
import type {
  Accounts,
  Anonymous,
  Clock,
  Environment,
  KeyPrincipal,
  Log,
  Principal,
} from "../plugin.ts";
import { explain, StoreError } from "../store/store-error.ts";
import { accountsReader, type StoredKey } from "./accounts-reader.ts";
import { keyEnvironment } from "./key-text.ts";
import { makeEntry, principalAt, type Entry, type Plans } from "./principal.ts";
import { openAccountsDatabase } from "./schema.ts";

export interface AccountsOptions {
  readonly dataDir: string;
  readonly environment: Environment;
  readonly plans: Plans;
  readonly clock: Clock;
  readonly log: Log;
  /** Most keys remembered, and most hashes of unknown keys; about 1 KiB and 0.2 KiB each. */
  readonly remember?: { readonly keys: number; readonly unknown: number };
}

export interface AccountsStats {
  /** False while the database cannot be read: known keys still work, changes and new keys are not seen. */
  readonly healthy: boolean;
  /** Keys in memory. */
  readonly keys: number;
  /** Hashes of unknown or revoked keys in memory. */
  readonly unknown: number;
  /** Times a key was not in memory and the database was asked, since the start. */
  readonly lookups: number;
}

export interface AccountsService extends Accounts {
  stats(): AccountsStats;
  /** Takes changes of the database in now; else it happens every 250 ms. */
  refresh(): void;
  /** The plans of a reloaded pipeline.yaml: every principal is made anew. */
  setPlans(plans: Plans): void;
  /** Writes the last uses and closes the database. What is in memory keeps answering. */
  close(): void;
}

const pollMs = 250;
const saveUseMs = 60_000;
/** Rows in one write of last uses, about 3 µs each: the event loop waits for it. */
const saveUseRows = 1_000;
/** How long a look-up may wait for a lock; in WAL mode readers hardly ever do. */
const lockWaitMs = 50;
const bearer = "Bearer ";

const anonymous = (reason: Anonymous["reason"]): Anonymous =>
  Object.freeze({ kind: "anonymous", reason });
const missing = anonymous("missing authorization header");
const malformed = anonymous("invalid authorization format");
const unauthorized = anonymous("unauthorized");
const expired = anonymous("api key has expired");

/** Opens the accounts of a data folder. Throws StoreError when they cannot be used. */
export function openAccounts(options: AccountsOptions): AccountsService {
  const { environment, clock, log } = options;
  const limits = options.remember ?? { keys: 32_768, unknown: 16_384 };
  const db = openIntact(options.dataDir);
  const reader = accountsReader(db);
  // Keys in memory are found by the hash of their text: no secret is kept, and none is compared byte by byte.
  const known = new Map<string, Entry>();
  const unknown = new Set<string>();
  let plans = options.plans;
  let healthy = true;
  let lookups = 0;

  const header = `${bearer}gateway_${environment}_`;
  const headerLength = header.length + 32;

  function identify(authorization: string | undefined): Principal {
    if (authorization === undefined) return missing;
    if (authorization.length !== headerLength || !authorization.startsWith(header)) {
      return stranger(authorization);
    }
    const digest = hash("sha256", authorization.slice(bearer.length));
    const entry = known.get(digest) ?? lookUp(digest, authorization);
    return entry === undefined ? stranger(authorization) : admit(entry);
  }

  function admit(entry: Entry): KeyPrincipal | Anonymous {
    const now = clock.now();
    if (now >= entry.expiresAt) return expired;
    if (now >= entry.planUntil || now < entry.planFrom) {
      Object.assign(entry, principalAt(entry.key, entry.workspace, plans, now));
    }
    entry.usedAt = now;
    return entry.principal;
  }

  function lookUp(digest: string, authorization: string): Entry | undefined {
    if (unknown.has(digest) || keyEnvironment(authorization, bearer.length) === undefined) return;
    lookups++;
    try {
      const found = reader.find(digest);
      if (found !== undefined) return remember(found);
      refuseFromNowOn(digest);
    } catch (error) {
      report(error);
    }
    return undefined;
  }

  function remember({ hash: digest, key, workspace }: StoredKey): Entry | undefined {
    if (key.revokedAt !== undefined || key.environment !== environment) {
      refuseFromNowOn(digest);
      return undefined;
    }
    const entry = makeEntry(key, workspace, plans, clock.now());
    const before = known.get(digest);
    if (before !== undefined) {
      entry.usedAt = before.usedAt;
      entry.savedUsedAt = before.savedUsedAt;
    }
    bound(known, limits.keys);
    known.set(digest, entry);
    return entry;
  }

  function refuseFromNowOn(digest: string): void {
    known.delete(digest);
    bound(unknown, limits.unknown);
    unknown.add(digest);
  }

  function refresh(): void {
    try {
      for (const key of reader.changed()) {
        unknown.delete(key.hash);
        if (known.has(key.hash)) remember(key);
      }
      if (!healthy) log.info({}, "accounts can be read again");
      healthy = true;
    } catch (error) {
      report(error);
    }
  }

  function saveUse(most: number): void {
    try {
      reader.saveUse(known.values(), most);
    } catch (error) {
      log.debug({ err: error }, "the last use of keys was not saved; it will be tried again");
    }
  }

  function report(error: unknown): void {
    if (healthy) log.error({ err: error }, "accounts cannot be read; known keys keep working");
    healthy = false;
  }

  db.exec(`PRAGMA busy_timeout = ${lockWaitMs}`);
  // This connection writes nothing but last uses, which may be lost: no fsync on the event loop.
  db.exec("PRAGMA synchronous = NORMAL");
  const timers = [clock.every(pollMs, refresh), clock.every(saveUseMs, () => saveUse(saveUseRows))];
  return {
    identify,
    refresh,
    stats: () => ({ healthy, keys: known.size, unknown: unknown.size, lookups }),
    setPlans(next) {
      plans = next;
      for (const entry of known.values()) {
        Object.assign(entry, principalAt(entry.key, entry.workspace, plans, clock.now()));
      }
    },
    close() {
      if (!db.isOpen) return;
      for (const timer of timers) timer[Symbol.dispose]();
      saveUse(Infinity);
      db.close();
    },
  };
}

/** Why a header that names no usable key of this deployment is refused; the order of gateway.md, Authentication. */
function stranger(authorization: string): Anonymous {
  const isKey = authorization.startsWith(bearer) && keyEnvironment(authorization, bearer.length);
  return isKey ? unauthorized : malformed;
}

/** Makes room for one more by forgetting the oldest. */
function bound(remembered: Map<string, unknown> | Set<string>, most: number): void {
  if (remembered.size < most) return;
  for (const oldest of remembered.keys()) {
    remembered.delete(oldest);
    return;
  }
}

/** A damaged database is found at the start, not at some request. */
function openIntact(dataDir: string): ReturnType<typeof openAccountsDatabase> {
  const db = openAccountsDatabase(dataDir);
  try {
    const fault = db.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    if (fault === "ok") return db;
    throw new StoreError(
      "SLUICE_STORE_CORRUPT",
      `the accounts in ${dataDir} are damaged (${String(fault)})`,
      "restore accounts.db from a backup, together with its -wal file",
    );
  } catch (error) {
    db.close();
    throw explain(error, `accounts.db in ${dataDir}`);
  }
}
