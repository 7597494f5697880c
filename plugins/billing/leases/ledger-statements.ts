import { dayWindow, monthWindow } from "../metering/windows.ts";

/** The credit that a lease holds, in milli-CU. `lease`: the table or its alias. */
export const heldSql = (lease: string): string => `greatest(${lease}.granted - ${lease}.spent, 0)`;

export const ofWorkspaceSql = (lease: string): string =>
  `EXISTS (SELECT FROM sluice.scopes WHERE id = ${lease}.scope AND limits IS NOT NULL)`;

/**
 * Serializes registrations, so that the ids of replicas are in the order of their commits. Readers of the charges of
 * all replicas rely on it: a replica that appears later has a higher id.
 */
export const registerLock = "pg_advisory_xact_lock(7582150)";

/** A condition on a row of `used`: it counts at a time. */
export const isCountedSql = (now: string): string =>
  `step >= CASE kind WHEN 'day' THEN ${now} / ${dayWindow.stepMs} - ${dayWindow.steps}
    WHEN 'month' THEN ${now} / ${monthWindow.stepMs} - ${monthWindow.steps} ELSE 0 END`;

/**
 * Reads everything that decisions about some scopes depend on. It is one statement, because a post moves an amount from
 * what is held to what is charged. Parameter: the scopes.
 */
export const readScopes = `
  SELECT w.scope, coalesce(s.version, -1) AS version, coalesce(s.epoch, 0) AS epoch,
    s.limits, coalesce(s.fixed, '[]') AS fixed,
    coalesce((SELECT jsonb_agg(jsonb_build_object('replica', replica, 'granted', granted,
      'spent', spent, 'slack', slack, 'waits', waits, 'epoch', epoch)) FROM sluice.leases WHERE scope = w.scope), '[]') AS leases,
    coalesce(u.day, 0)::bigint AS day, coalesce(u.month, 0)::bigint AS month,
    coalesce(u.periods, '[]') AS periods, at.now, at.live
  FROM unnest($1::text[]) AS w (scope)
  CROSS JOIN (SELECT sluice.now_ms() AS now,
    (SELECT count(*) FROM sluice.replicas WHERE state = 'live') AS live OFFSET 0) AS at
  LEFT JOIN sluice.scopes s ON s.id = w.scope
  LEFT JOIN LATERAL (
    SELECT sum(milli_cu) FILTER (WHERE kind = 'day') AS day,
      sum(milli_cu) FILTER (WHERE kind = 'month') AS month,
      jsonb_agg(jsonb_build_array(step, milli_cu)) FILTER (WHERE kind = 'period') AS periods
    FROM (
      SELECT kind, step, sum(milli_cu) AS milli_cu FROM sluice.used
      WHERE scope = w.scope AND ${isCountedSql("at.now")} GROUP BY kind, step) AS each
    ) AS u ON true`;

/** Parameters: keys, and the time of the decision about each. */
export const readSteps = `
  SELECT scope, kind, step, sum(milli_cu)::bigint AS milli_cu
  FROM unnest($1::text[], $2::bigint[]) AS w (scope, now)
  JOIN sluice.used USING (scope) WHERE ${isCountedSql("now")}
  GROUP BY scope, kind, step ORDER BY step`;

/**
 * Common table expressions that write decisions. `mine` has a row if the replica is live and the request is newer than
 * all that were accepted from it, and `done` has the scopes that are written: those whose version is still the one that
 * was read. Parameters: replica, number of the request, the decisions as a JSON array, and whether a part of the same
 * request was accepted before. Scopes are locked in the order of their ids, so that two requests do not deadlock.
 */
export const writeLeases = `
  WITH mine AS (
    UPDATE sluice.replicas SET lease_no = $2, heard_at = sluice.now_ms()
    WHERE id = $1 AND state = 'live' AND (lease_no < $2 OR ($4 AND lease_no = $2)) RETURNING id
  ), given AS MATERIALIZED (
    SELECT d.* FROM mine, json_to_recordset($3::json) AS d (scope text, version bigint, epoch bigint,
      limits jsonb, fixed jsonb, is_new boolean, ends boolean,
      granted bigint, slack bigint, waits bigint, answered bigint)
  ), locked AS MATERIALIZED (
    SELECT s.id FROM sluice.scopes s JOIN given d ON d.scope = s.id AND d.version = s.version
    ORDER BY s.id FOR UPDATE OF s
  ), changed AS (
    UPDATE sluice.scopes s SET version = s.version + 1, epoch = d.epoch,
      limits = d.limits, fixed = d.fixed
    FROM locked, given d WHERE s.id = locked.id AND d.scope = s.id RETURNING s.id
  ), added AS (
    INSERT INTO sluice.scopes (id, epoch, limits, fixed)
    SELECT scope, epoch, limits, fixed FROM given WHERE version = -1 ORDER BY scope
    ON CONFLICT DO NOTHING RETURNING id
  ), done AS MATERIALIZED (
    SELECT id FROM changed UNION ALL SELECT id FROM added
  ), kept AS (
    INSERT INTO sluice.leases AS known (scope, replica, granted, spent, slack, waits, epoch)
    SELECT scope, $1, granted, 0, slack, waits, answered
    FROM given JOIN done ON id = scope WHERE NOT ends
    -- A replica that counts from zero has no charges of this scope on their way.
    ON CONFLICT (scope, replica) DO UPDATE
      SET granted = excluded.granted, slack = excluded.slack, waits = excluded.waits, epoch = excluded.epoch,
        spent = CASE WHEN (SELECT is_new FROM given WHERE given.scope = excluded.scope)
          THEN excluded.spent ELSE known.spent END
  ), freed AS (
    DELETE FROM sluice.leases l USING given d JOIN done ON done.id = d.scope
    WHERE l.scope = d.scope AND l.replica = $1 AND d.ends
  )`;
