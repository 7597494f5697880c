/**
 * Functions in PostgreSQL. Gateways may execute them, and have no other right to write to the charges and to the sums
 * that are made of charges. Everything else is a statement of PostgresLedger.
 *
 * A transaction locks the row of its replica first. A replica writes only rows that carry its number, so replicas never
 * deadlock while they post.
 */
import type { Migration } from "sluice-gateway/internal/postgres";
import { dayWindow, monthWindow } from "../metering/windows.ts";
import { isCountedSql } from "./ledger-statements.ts";
import { monthOfSql, tables } from "./schema-tables.ts";

/**
 * `hours` has the sums of the charges that a replica has made in an hour (hours since 1970) with the same names. An
 * empty text is a missing name. `names` is a digest of the names, because some are too long for an index.
 */
const hourTables = `
DROP TABLE IF EXISTS sluice.spend, sluice.spend_read, sluice.hours;
ALTER TABLE sluice.charges ADD COLUMN IF NOT EXISTS cached_tokens bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS reasoning_tokens bigint NOT NULL DEFAULT 0;
CREATE TABLE sluice.hours (
  hour bigint, replica bigint, names uuid,
  workspace_id text NOT NULL, key_id text NOT NULL, surface text NOT NULL, method text NOT NULL,
  model text NOT NULL, route text NOT NULL, tag text NOT NULL,
  calls bigint NOT NULL, used bigint NOT NULL,
  input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  cached_tokens bigint NOT NULL, reasoning_tokens bigint NOT NULL,
  PRIMARY KEY (hour, replica, names)
) WITH (fillfactor = 70);
`;

/** `charges`: a relation with the columns of the charges. `replica`: the number of the replica that has made them. */
const addToHours = (charges: string, replica: string): string => `
  INSERT INTO sluice.hours AS known
    SELECT hour, replica, md5(jsonb_build_array(workspace_id, key_id, surface, method, model, route, tag)::text)::uuid,
      workspace_id, key_id, surface, method, model, route, tag, count(*),
      sum(used_cu_milli), sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(reasoning_tokens)
    FROM (
      SELECT floor(extract(epoch FROM time) * 1000 / ${monthWindow.stepMs})::bigint AS hour, ${replica} AS replica,
        workspace_id, key_id, surface, method, coalesce(model, '') AS model, coalesce(route, '') AS route,
        coalesce(agent ->> 'name', '') AS tag, used_cu_milli,
        input_tokens, output_tokens, cached_tokens, reasoning_tokens
      FROM ${charges}) AS each
    GROUP BY hour, replica, workspace_id, key_id, surface, method, model, route, tag
    ON CONFLICT (hour, replica, names) DO UPDATE SET
      calls = known.calls + excluded.calls,
      used = known.used + excluded.used,
      input_tokens = known.input_tokens + excluded.input_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cached_tokens = known.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = known.reasoning_tokens + excluded.reasoning_tokens`;

/** The charges of earlier versions are added up. */
const hours: string = `${hourTables}${addToHours("sluice.charges", "replica")};`;

const entryPoint =
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms'";

/**
 * Adds the charges of a batch to the table, to the sums of the hours, to the windows of their keys, to the months of
 * their workspaces and to what the leases have spent. Creates the partition of a month (UTC) if it is missing. The
 * charges count in the windows from now on, by the clock of the database, because until now they counted as granted.
 *
 * The rows of a batch are the charges with the columns of the table, `taken` and `key_taken`: the parts that the leases
 * of the workspace and of the key cover. Both are null for a charge that a gateway has made without a database; it
 * counts at its own time. Amounts are of the type `sluice.amount`, so a negative one fails.
 */
const post = `
CREATE FUNCTION sluice.credit_post(p_replica bigint, p_first bigint, p_last bigint, p_rows json)
RETURNS jsonb LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
  v_month timestamp;
  v_part text;
  v_standing jsonb;
BEGIN
  -- This comparison makes every charge count exactly once, and a fenced replica posts nothing.
  UPDATE sluice.replicas SET posted = p_last, heard_at = v_now
    WHERE id = p_replica AND (state = 'live' OR mode = 'local') AND posted = p_first - 1;
  IF FOUND THEN
    FOR v_month IN
      SELECT DISTINCT date_trunc('month', time AT TIME ZONE 'UTC')
      FROM json_to_recordset(p_rows) AS r (time timestamptz)
    LOOP
      v_part := 'charges_' || to_char(v_month, 'YYYY_MM');
      CONTINUE WHEN to_regclass('sluice.' || v_part) IS NOT NULL;
      PERFORM pg_advisory_xact_lock(7582144);
      -- to_regclass may remember that the table is missing, although another replica has just created it.
      CONTINUE WHEN EXISTS (SELECT FROM pg_class WHERE relname = v_part AND relnamespace = 'sluice'::regnamespace);
      -- A table that is attached does not wait for readers, as CREATE TABLE … PARTITION OF would.
      EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.charges INCLUDING DEFAULTS)', v_part);
      EXECUTE format('ALTER TABLE sluice.charges ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
        v_part, v_month AT TIME ZONE 'UTC', (v_month + interval '1 month') AT TIME ZONE 'UTC');
    END LOOP;
    WITH posted AS MATERIALIZED (
      SELECT time, seq, workspace_id, key_id, surface, method, model, request_id, agent, pricing,
        used_cu_milli, input_tokens, output_tokens,
        coalesce(cached_tokens, 0) AS cached_tokens, coalesce(reasoning_tokens, 0) AS reasoning_tokens,
        estimated, outcome, route, taken, key_taken,
        (extract(epoch FROM time) * 1000)::bigint AS at
      FROM json_to_recordset(p_rows) AS r (
        time timestamptz, seq bigint, workspace_id text, key_id text, surface text, method text,
        model text, request_id text, agent jsonb, pricing jsonb, used_cu_milli sluice.amount,
        input_tokens bigint, output_tokens bigint, cached_tokens bigint, reasoning_tokens bigint,
        estimated boolean, outcome text, route text, taken sluice.amount, key_taken sluice.amount)
    ), kept AS (
      INSERT INTO sluice.charges (time, replica, seq, workspace_id, key_id, surface, method, model,
          request_id, agent, pricing, used_cu_milli, input_tokens, output_tokens, cached_tokens,
          reasoning_tokens, estimated, outcome, route)
        SELECT time, p_replica, seq, workspace_id, key_id, surface, method, model, request_id, agent,
          pricing, used_cu_milli, input_tokens, output_tokens, cached_tokens, reasoning_tokens,
          estimated, outcome, route
        FROM posted
    ), summed AS (${addToHours("posted", "p_replica")}
    ), counted AS (
      INSERT INTO sluice.used AS known
        SELECT key_id, kind, CASE WHEN taken IS NULL THEN least(at, v_now) ELSE v_now END / length,
          p_replica, sum(used_cu_milli)
        FROM posted,
          (VALUES ('day', ${dayWindow.stepMs}), ('month', ${monthWindow.stepMs})) AS windows (kind, length)
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT workspace_id, 'period', ${monthOfSql("least(at, v_now)")}, p_replica, sum(used_cu_milli)
        FROM posted GROUP BY 1, 3
        ON CONFLICT (scope, kind, step, replica)
          DO UPDATE SET milli_cu = known.milli_cu + excluded.milli_cu
    )
    INSERT INTO sluice.leases AS known (scope, replica, granted, spent)
      SELECT scope, p_replica, 0, spent
      FROM (
        SELECT key_id, sum(key_taken) FROM posted GROUP BY 1
        UNION ALL
        SELECT workspace_id, sum(taken) FROM posted GROUP BY 1
      ) AS sums (scope, spent)
      WHERE spent > 0
      ON CONFLICT (scope, replica) DO UPDATE SET spent = known.spent + excluded.spent;
  END IF;
  SELECT jsonb_build_object('state', state, 'posted', posted, 'leaseNo', lease_no) INTO v_standing
    FROM sluice.replicas WHERE id = p_replica;
  RETURN coalesce(v_standing, '{"state": "unknown", "posted": 0, "leaseNo": 0}')
    || jsonb_build_object('time', sluice.now_ms());
END $$;
`;

/**
 * Deletes what is not needed any more: steps that have left their window, and leases of replicas that have ended while
 * they asked for credit. Months of replicas that have ended are added to those of replica 0, so that the rows per
 * workspace do not grow with every start. A grant sees all of it or nothing.
 */
const sweep = `
CREATE FUNCTION sluice.credit_sweep() RETURNS void LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
BEGIN
  IF NOT pg_try_advisory_xact_lock(7582148) THEN RETURN; END IF;
  DELETE FROM sluice.used WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM sluice.used WHERE NOT (${isCountedSql("v_now")}) LIMIT 10000));
  DELETE FROM sluice.leases l USING sluice.replicas r WHERE r.id = l.replica AND r.state <> 'live';
  WITH ended AS (
    DELETE FROM sluice.used u USING sluice.replicas r
    WHERE r.id = u.replica AND r.state <> 'live' AND kind = 'period' RETURNING u.*
  )
  INSERT INTO sluice.used AS known
    SELECT scope, kind, step, 0, sum(milli_cu) FROM ended GROUP BY 1, 2, 3
    ON CONFLICT (scope, kind, step, replica) DO UPDATE SET milli_cu = known.milli_cu + excluded.milli_cu;
END $$;
`;

/**
 * The work that one of several gateways does for all: `holder` does it until `until`, in milliseconds since 1970.
 * `position`: the progress of the work. The index is for the usage export.
 */
const jobs = `
CREATE TABLE sluice.jobs (
  name text PRIMARY KEY, holder text NOT NULL, until bigint NOT NULL, position text
);
CREATE INDEX charges_by_replica ON sluice.charges (replica, seq);
`;

const script = [tables, hours, post, sweep].join("\n");

export const chargeMigrations: readonly Migration[] = [
  // The next script takes over what this one has made, and everything earlier.
  { name: "shared credit", sql: "", excludesOlder: true },
  { name: "credit with epochs", sql: script, excludesOlder: true },
  { name: "usage export", sql: jobs },
];
