/** The feeds and the fencing of the ledger in PostgreSQL, which are a part of the looks of this gateway. */
import type { Session } from "sluice-gateway/plugin";
import { silenceMs } from "./authority.ts";
import type { CreditLedger, FeedReply } from "./ledger.ts";
import { heldSql } from "./ledger-statements.ts";

/** Start of the server in milliseconds since 1970. A setting replaces it, for tests. */
const startedSql = `coalesce(nullif(current_setting('sluice.started_ms', true), '')::bigint,
  (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint)`;

/**
 * Parameters: the replicas that ask for their feed, and the one that fences others. Every message of a replica changes
 * its row. So a replica whose leases this statement does not see is not silent. A replica does not fence itself.
 */
const changes = `
  asking AS (
    UPDATE sluice.replicas SET heard_at = sluice.now_ms()
    WHERE id = ANY ($1::bigint[]) AND state = 'live' RETURNING id
  ), silent AS (
    SELECT id FROM sluice.replicas
    WHERE state = 'live' AND sluice.now_ms() - heard_at > ${silenceMs} AND id <> ALL ($1::bigint[])
      AND EXISTS (SELECT FROM sluice.replicas WHERE id = $2::bigint AND state = 'live'
        AND sluice.now_ms() - greatest(registered_at, ${startedSql}) >= ${silenceMs})
    FOR UPDATE SKIP LOCKED
  ), ended AS (
    UPDATE sluice.replicas r SET state = 'fenced' FROM silent WHERE r.id = silent.id RETURNING r.id
  ), freed AS (
    DELETE FROM sluice.leases WHERE replica IN (SELECT id FROM ended)
  )`;

/** A replica that is live, but that this statement has not changed, has been fenced since the statement began. */
const feeds = `(
  SELECT coalesce(jsonb_agg(jsonb_build_object(
    'replica', asked.id,
    'state', CASE WHEN EXISTS (SELECT FROM asking WHERE asking.id = asked.id) THEN 'live'
      WHEN r.state = 'live' THEN 'fenced' ELSE coalesce(r.state, 'unknown') END,
    'posted', coalesce(r.posted, 0),
    'leaseNo', coalesce(r.lease_no, 0),
    'time', sluice.now_ms(),
    'epochs', (SELECT coalesce(jsonb_agg(jsonb_build_object('scope', s.id, 'epoch', s.epoch)), '[]')
      FROM asking JOIN sluice.leases l ON l.replica = asking.id JOIN sluice.scopes s ON s.id = l.scope
      WHERE asking.id = asked.id AND l.epoch < s.epoch AND ${heldSql("l")} > 0))), '[]')
  FROM unnest($1::bigint[]) AS asked (id) LEFT JOIN sluice.replicas r USING (id))`;

const fenced = "(SELECT coalesce(jsonb_agg(id ORDER BY id), '[]') FROM ended)";

/** A message that waits for the next look, or for the end of the one that carries it. */
interface Asked<T> {
  readonly replica: number;
  readonly resolve: (reply: T) => void;
  readonly reject: (error: unknown) => void;
}

interface AskedOfLook {
  readonly feeds: readonly Asked<FeedReply>[];
  readonly fences: readonly Asked<readonly number[]>[];
}

const nothing: AskedOfLook = { feeds: [], fences: [] };

/** Both methods wait for the next look. They reject with StoreError. */
export function joinLooks(session: Session): Pick<CreditLedger, "feed" | "fence"> {
  let next = nothing;
  let sent = nothing;
  let isStarting = { feed: true, fence: true };
  /** A start waits for the first message of each kind, so they do not wait for the interval. */
  const lookAtStart = (kind: "feed" | "fence"): void => {
    if (isStarting[kind]) session.look().catch(() => {});
    isStarting = { ...isStarting, [kind]: false };
  };
  session.watch({
    with: changes,
    columns: { feeds, fenced },
    values() {
      sent = next;
      next = nothing;
      return [sent.feeds.map(({ replica }) => replica), sent.fences[0]?.replica ?? null];
    },
    seen(row) {
      // Only the look above writes these columns.
      const replies = row["feeds"] as readonly (FeedReply & { readonly replica: number })[];
      const byReplica = new Map(replies.map(({ replica, ...reply }) => [replica, reply]));
      for (const { replica, resolve, reject } of sent.feeds) {
        const reply = byReplica.get(replica);
        if (reply === undefined) reject(new Error("the look has no feed of this replica"));
        else resolve(reply);
      }
      for (const { resolve } of sent.fences) resolve(row["fenced"] as readonly number[]);
    },
    failed(error) {
      for (const { reject } of [...sent.feeds, ...sent.fences]) reject(error);
    },
  });
  return {
    feed: (replica) =>
      new Promise((resolve, reject) => {
        next = { ...next, feeds: [...next.feeds, { replica, resolve, reject }] };
        lookAtStart("feed");
      }),
    fence: (replica) =>
      new Promise((resolve, reject) => {
        next = { ...next, fences: [...next.fences, { replica, resolve, reject }] };
        lookAtStart("fence");
      }),
  };
}
