/**
 * The ledger in PostgreSQL. The decisions about credit are made in authority.ts, and only `sluice.credit_post` can add
 * charges. Every message is one statement, with two exceptions: the looks carry the feeds, and a lease request is two
 * statements. The first one reads the scopes, and the second one writes the decisions for the scopes that have not
 * changed in the meantime. So no lock is held while a gateway thinks. Every method rejects with DatabaseFailure.
 */
import type { Postgres, Session } from "sluice-gateway/plugin";
import { number, text, type Row } from "sluice-gateway/internal/store";
import {
  chargeColumns,
  chargeText,
  readChargeText,
  storableJson,
  withPricing,
} from "../metering/charge-text.ts";
import { windowOf } from "../metering/windows.ts";
import { grant, limitReached, type Decision, type LeaseRow, type ScopeView } from "./authority.ts";
import { joinLooks } from "./feeds.ts";
import type {
  CreditLedger,
  Granted,
  LeasedCharge,
  LeaseReply,
  LeaseRequest,
  PostRequest,
  ReplicaState,
  ReplicaStatus,
  Want,
  WorkspaceLimits,
} from "./ledger.ts";
import type { FixedMonth } from "./months.ts";
import { readScopes, readSteps, registerLock, writeLeases } from "./ledger-statements.ts";

/** A message without a reply is sent again after this time, so the reply to its statement is no longer needed. */
const statementMs = 2_000;
/** Maximum number of times that one lease request is decided, because other gateways have changed its scopes. */
const maxDecisions = 20;

/**
 * The status of a replica after a statement. `changed`: a common table expression that has a row if the statement has
 * found the replica live and has changed its row. `state`: its new state. `isIgnored`: true if it may be live
 * nevertheless. Otherwise it has been fenced since the statement began.
 */
const statusAfter = (changed: string, state = "live", isIgnored = "false"): string => `
  CASE WHEN EXISTS (SELECT FROM ${changed}) THEN '${state}'
    WHEN r.state = 'live' AND NOT ${isIgnored} THEN 'fenced' ELSE coalesce(r.state, 'unknown') END AS state,
  coalesce(r.posted, 0) AS posted, coalesce(r.lease_no, 0) AS lease_no, sluice.now_ms() AS time`;
const replicaOf = "(SELECT $1::bigint AS id) AS asked LEFT JOIN sluice.replicas r USING (id)";

const register = `
  INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at)
  SELECT $1::text, $2::text, $3::text, 'live', begun.now, begun.now
  FROM (SELECT sluice.now_ms() AS now, ${registerLock}) AS begun
  RETURNING id, state, posted, lease_no, heard_at AS time`;

const leave = `
  WITH gone AS (
    UPDATE sluice.replicas SET state = 'gone', heard_at = sluice.now_ms()
    WHERE id = $1 AND state = 'live' RETURNING id
  ), freed AS (
    DELETE FROM sluice.leases WHERE replica IN (SELECT id FROM gone)
  )
  SELECT ${statusAfter("gone", "gone")} FROM ${replicaOf}`;

const write = `${writeLeases}
  SELECT ${statusAfter("mine", "live", "r.lease_no >= $2")}, EXISTS (SELECT FROM mine) AS is_accepted,
    (SELECT coalesce(jsonb_agg(id), '[]') FROM done) AS done
  FROM ${replicaOf}`;

/** Charges and leases have one connection each, so that they do not wait for each other or for other statements. */
export function createPostgresLedger(
  database: Postgres,
  version: string,
  session: Session,
): CreditLedger {
  const connect = (): Postgres => database.separate({ connections: 1, statementMs });
  const [onPosts, onLeases] = [connect(), connect()];
  return {
    async register(name, mode) {
      const [row = {}] = await database.query("register", register, [name, version, mode]);
      return { ...statusOf(row), replica: number(row, "id") };
    },
    ...joinLooks(session),
    lease: (request) => lease(onLeases, request),
    async post(request) {
      const { replica, first, last } = request;
      const values = [replica, first, last, encodeCharges(request)];
      const statement = "SELECT sluice.credit_post($1, $2, $3, $4) AS reply";
      const [row] = await onPosts.query("post", statement, values);
      // Only the function in schema.ts writes the reply.
      return row?.["reply"] as ReplicaStatus;
    },
    async leave(replica) {
      const [row = {}] = await database.query("register", leave, [replica]);
      return statusOf(row);
    },
  };
}

function statusOf(row: Row): ReplicaStatus {
  return {
    // Only this file writes the column.
    state: text(row, "state") as ReplicaState,
    posted: number(row, "posted"),
    leaseNo: number(row, "lease_no"),
    time: number(row, "time"),
  };
}

interface Decided {
  readonly want: Want;
  readonly view: ScopeView;
  readonly version: number;
  readonly decision: Decision;
}

async function lease(
  database: Postgres,
  { replica, leaseNo, wants }: LeaseRequest,
): Promise<LeaseReply> {
  const done: Decided[] = [];
  let rest = wants;
  for (let round = 0; round < maxDecisions; round++) {
    const decided = await decide(database, replica, rest);
    const values = [replica, leaseNo, JSON.stringify(decided.map(rowOfLease)), round > 0];
    const [row = {}] = await database.query("lease", write, values);
    const status = statusOf(row);
    if (row["is_accepted"] !== true) return { ...status, granted: undefined };
    // Only the statement above writes it.
    const written = new Set(row["done"] as readonly string[]);
    done.push(...decided.filter(({ want }) => written.has(want.scope)));
    rest = rest.filter(({ scope }) => !written.has(scope));
    if (rest.length === 0) {
      const granted = await replies(database, done);
      return { ...status, leaseNo, granted };
    }
  }
  throw new Error("other gateways have changed the same scopes all the time");
}

async function decide(
  database: Postgres,
  replica: number,
  wants: readonly Want[],
): Promise<Decided[]> {
  const rows = await database.query("lease", readScopes, [wants.map(({ scope }) => scope)]);
  const found = new Map(rows.map((row) => [text(row, "scope"), row]));
  return wants.map((want) => {
    const row = found.get(want.scope) ?? {};
    const view = viewOf(row, replica);
    return { want, view, version: number(row, "version"), decision: grant(view, want) };
  });
}

function viewOf(row: Row, replica: number): ScopeView {
  // Only `readScopes` writes these columns.
  const leases = row["leases"] as readonly (LeaseRow & { readonly replica: number })[];
  const periods = row["periods"] as readonly (readonly [start: number, milliCu: number])[];
  return {
    scope: {
      epoch: number(row, "epoch"),
      limits: (row["limits"] as WorkspaceLimits | null) ?? undefined,
      fixed: row["fixed"] as readonly FixedMonth[],
    },
    own: leases.find((each) => each.replica === replica),
    others: leases.filter((each) => each.replica !== replica),
    used: {
      dayMilliCu: number(row, "day"),
      monthMilliCu: number(row, "month"),
      months: new Map(periods),
    },
    live: number(row, "live"),
    // If this gateway is killed, the next one must not wait for its credit.
    isOnlyHolder: false,
    now: number(row, "now"),
  };
}

function rowOfLease({ want, version, decision }: Decided): object {
  const { scope, lease: kept } = decision;
  return {
    scope: want.scope,
    version,
    epoch: scope.epoch,
    is_new: want.isNew,
    ends: kept === undefined,
    limits: scope.limits,
    fixed: scope.fixed,
    granted: kept?.granted ?? 0,
    slack: kept?.slack ?? 0,
    waits: kept?.waits ?? 0,
    answered: kept?.epoch ?? 0,
  };
}

/** Adds the limits that were reached, which need the steps of the windows of a key. */
async function replies(database: Postgres, done: readonly Decided[]): Promise<Granted[]> {
  const refused = done.filter(({ decision }) => decision.unmetMilliCu > 0);
  const keys = refused.filter(({ want }) => want.limits.kind === "key");
  const rows =
    keys.length === 0
      ? []
      : await database.query("lease", readSteps, [
          keys.map(({ want }) => want.scope),
          keys.map(({ view }) => view.now),
        ]);
  return done.map(({ want, view, decision }) => {
    if (decision.unmetMilliCu === 0) return { ...decision.granted, reached: undefined };
    const steps = rows.filter((row) => row["scope"] === want.scope);
    const reached = limitReached(decision, view, want.limits, (window) =>
      windowOf(
        window,
        steps
          .filter(({ kind }) => kind === window)
          .map((row) => [number(row, "step"), number(row, "milli_cu")]),
      ),
    );
    return { ...decision.granted, reached };
  });
}

export function encodeCharges({ first, charges }: Pick<PostRequest, "first" | "charges">): string {
  return `[${charges.map((charge, place) => storableJson(rowOf(charge, first + place))).join(",")}]`;
}

function rowOf(charge: LeasedCharge, seq: number): object {
  const { about, line } = charge.details;
  const described = {
    ...readChargeText(withPricing(chargeText(about.requestId, about.agent), line.pricing)),
    time: charge.time,
    workspaceId: charge.workspaceId,
    keyId: charge.keyId,
    surface: line.surface,
    method: line.method,
    model: line.model,
    route: about.route,
    usedMilliCu: charge.costMilliCu,
    inputTokens: line.inputTokens ?? 0,
    outputTokens: line.outputTokens ?? 0,
    cachedTokens: line.cachedTokens ?? 0,
    reasoningTokens: line.reasoningTokens ?? 0,
    estimated: line.estimated === true,
    outcome: line.outcome ?? "complete",
  };
  const taken = { taken: charge.takenMilliCu, key_taken: charge.keyTakenMilliCu };
  return { ...chargeColumns(described, seq), ...taken };
}
