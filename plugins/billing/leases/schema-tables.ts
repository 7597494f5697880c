/**
 * Tables of the replicas, their charges and the credit of several replicas, and the small functions that the others
 * call. Amounts are in milli-CU, in arrays with one entry per source; times are in milliseconds since 1970.
 */
import { placesPerCommit } from "../metering/charge-number.ts";
import { dayWindow, monthWindow } from "../metering/windows.ts";
import { silenceMs } from "./memory-ledger.ts";

/** The functions of the first release. The scripts below create those that are still needed. */
const earlierFunctions = `
  state_heard credit_register credit_register_start credit_feed credit_fence credit_leave credit_lease
  credit_post grant_want standing credit_end credit_sweep key_usage workspace_usage reserved_in
  drawn_in limit_reached window_clears_at left_in not_posted drawn windows window_sum add_spend
  end_silent record_charges lock_registration make_partition held minus take_in_order plus total
  amounts period_of period_end started_ms
`;

/**
 * Takes over the tables of the first release. Its gateways should have ended, because they call functions that no longer
 * exist. A gateway with `durability: local` must have ended: it may have charges in its data folder that are not posted,
 * and keeps its credit for them.
 *
 * In the second statement, the number of the last charge of a data folder replaces the number of its last commit.
 */
const takeOver = `
DO $$
DECLARE
  v_names text;
BEGIN
  IF to_regclass('sluice.replicas') IS NULL THEN RETURN; END IF;
  LOCK sluice.replicas;
  SELECT string_agg(DISTINCT name, ', ') INTO v_names FROM sluice.replicas
    WHERE mode = 'local' AND state IN ('live', 'silent', 'behind');
  IF v_names IS NOT NULL THEN
    RAISE EXCEPTION E'gateways with durability: local have not ended: %\\n%', v_names,
      'Start them with the earlier release, wait until sluice_ship_lag_seconds is 0, and stop them. If a data folder is lost, run sluice store forget NAME of that release.';
  END IF;
  UPDATE sluice.replicas SET posted = (posted + 1) * ${placesPerCommit} - 1 WHERE mode = 'local';
  DROP FUNCTION IF EXISTS ${earlierFunctions.trim().replaceAll(/\s+/g, ", ").replaceAll(/(\w+)/g, "sluice.$1")};
  ALTER TABLE sluice.replicas DROP COLUMN session, DROP COLUMN starts, DROP COLUMN posted_check;
END $$;
`;

/**
 * `replicas` has one row per start of a replica, and one per data folder whose charges were copied (mode `local`).
 * `journal` is part of the ids of its charges, and `posted` is the number of the last one in `charges`. `ReplicaState`
 * in ledger.ts describes the states; a data folder is always `gone`, or `fenced` if an operator gave it up.
 *
 * `seq` of a charge is its number. For a data folder it contains the number of the commit: see charge-number.ts.
 */
const replicasAndCharges = `
CREATE TABLE IF NOT EXISTS sluice.replicas (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  journal text NOT NULL UNIQUE DEFAULT replace(gen_random_uuid()::text, '-', ''),
  name text NOT NULL,
  version text NOT NULL,
  mode text NOT NULL,
  state text NOT NULL,
  posted bigint NOT NULL DEFAULT 0,
  lease_no bigint NOT NULL DEFAULT 0,
  registered_at bigint NOT NULL,
  heard_at bigint NOT NULL
);
CREATE INDEX IF NOT EXISTS replicas_live ON sluice.replicas (id) WHERE state = 'live';

CREATE TABLE IF NOT EXISTS sluice.charges (
  time timestamptz NOT NULL,
  replica bigint NOT NULL,
  seq bigint NOT NULL,
  workspace_id text NOT NULL,
  key_id text NOT NULL,
  surface text NOT NULL,
  method text NOT NULL,
  model text,
  request_id text NOT NULL,
  agent jsonb,
  pricing jsonb,
  included_cu_milli bigint NOT NULL,
  purchased_cu_milli bigint NOT NULL,
  overage_cu_milli bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  estimated boolean NOT NULL,
  outcome text NOT NULL,
  route text,
  PRIMARY KEY (time, replica, seq)
) PARTITION BY RANGE (time);
CREATE INDEX IF NOT EXISTS charges_by_workspace ON sluice.charges (workspace_id, time);

CREATE OR REPLACE VIEW sluice.usage AS
  SELECT format('chg_%s_%s_%s', r.journal, c.seq / ${placesPerCommit}, c.seq % ${placesPerCommit}) AS id,
    c.*, c.included_cu_milli + c.purchased_cu_milli + c.overage_cu_milli AS used_cu_milli
  FROM sluice.charges c JOIN sluice.replicas r ON r.id = c.replica;
`;

/**
 * Creates the partition of a month (UTC) if it is missing. A table that is attached does not wait for readers, as
 * \`CREATE TABLE … PARTITION OF\` would.
 */
const makePartition = `
CREATE FUNCTION sluice.make_partition(p_month timestamp) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part text := 'charges_' || to_char(p_month, 'YYYY_MM');
BEGIN
  IF to_regclass('sluice.' || part) IS NOT NULL THEN RETURN; END IF;
  PERFORM pg_advisory_xact_lock(7582144);
  -- to_regclass may remember that the table is missing, although another replica has just created it.
  IF EXISTS (SELECT FROM pg_class WHERE relname = part AND relnamespace = 'sluice'::regnamespace) THEN
    RETURN;
  END IF;
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.charges INCLUDING DEFAULTS)', part);
  EXECUTE format(
    'ALTER TABLE sluice.charges ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
    part, p_month AT TIME ZONE 'UTC', (p_month + interval '1 month') AT TIME ZONE 'UTC');
END $$;
`;

const credit = `
CREATE TABLE IF NOT EXISTS sluice.scopes (
  id text PRIMARY KEY,
  recall bigint NOT NULL DEFAULT 0,
  is_tight boolean NOT NULL DEFAULT false,
  unmet_at bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS sluice.leases (
  scope text, replica bigint, granted bigint[] NOT NULL, spent bigint[] NOT NULL,
  slack bigint[] NOT NULL, recall bigint NOT NULL,
  PRIMARY KEY (scope, replica)
);
CREATE INDEX IF NOT EXISTS leases_replica_idx ON sluice.leases (replica);
CREATE TABLE IF NOT EXISTS sluice.key_steps (
  key_id text, kind text, step bigint, replica bigint, milli_cu bigint NOT NULL,
  PRIMARY KEY (key_id, kind, step, replica)
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS sluice.draws (
  workspace_id text, period bigint, replica bigint, amounts bigint[] NOT NULL,
  PRIMARY KEY (workspace_id, period, replica)
) WITH (fillfactor = 70);
`;

/** Tests replace the clock. */
const clock = `
CREATE OR REPLACE FUNCTION sluice.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
$$;
CREATE FUNCTION sluice.started_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint;
$$;
CREATE FUNCTION sluice.period_of(p_time bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM date_trunc('month', to_timestamp(p_time / 1000) AT TIME ZONE 'UTC')
    AT TIME ZONE 'UTC') * 1000)::bigint;
$$;
CREATE FUNCTION sluice.period_end(p_time bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM (date_trunc('month', to_timestamp(p_time / 1000) AT TIME ZONE 'UTC')
    + interval '1 month') AT TIME ZONE 'UTC') * 1000)::bigint;
$$;
`;

/** The same functions as in amounts.ts. */
const amounts = `
CREATE FUNCTION sluice.amounts(p_json jsonb) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(value::bigint ORDER BY place), '{}')
  FROM jsonb_array_elements_text(p_json) WITH ORDINALITY AS each (value, place);
$$;
CREATE FUNCTION sluice.total(p_amounts bigint[]) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(sum(amount), 0)::bigint FROM unnest(p_amounts) AS amount;
$$;
CREATE FUNCTION sluice.plus(p_left bigint[], p_right bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(l + coalesce(p_right[place], 0) ORDER BY place)
  FROM unnest(p_left) WITH ORDINALITY AS each (l, place);
$$;
CREATE FUNCTION sluice.minus(p_left bigint[], p_right bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_agg(l - coalesce(p_right[place], 0) ORDER BY place)
  FROM unnest(p_left) WITH ORDINALITY AS each (l, place);
$$;
CREATE FUNCTION sluice.take_in_order(p_available bigint[], p_amount bigint) RETURNS bigint[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  v_rest bigint := p_amount;
  v_taken bigint[] := p_available;
BEGIN
  FOR i IN 1 .. cardinality(p_available) LOOP
    v_taken[i] := least(p_available[i], v_rest);
    v_rest := v_rest - v_taken[i];
  END LOOP;
  RETURN v_taken;
END $$;
CREATE FUNCTION sluice.held(p_granted bigint[], p_spent bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(sum(greatest(g - p_spent[place], 0)), 0)::bigint
  FROM unnest(p_granted) WITH ORDINALITY AS each (g, place);
$$;
`;

/**
 * Ends the replicas that have been silent for too long, and returns their numbers. A fenced replica cannot post
 * anything, so the credit that it held is free.
 */
const endSilent = `
CREATE FUNCTION sluice.end_silent(p_now bigint) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_ended bigint[];
BEGIN
  WITH silent AS (
    SELECT id FROM sluice.replicas
      WHERE state = 'live' AND p_now - heard_at > ${silenceMs} FOR UPDATE SKIP LOCKED
  ), ended AS (
    UPDATE sluice.replicas r SET state = 'fenced'
      FROM silent WHERE r.id = silent.id RETURNING r.id
  )
  SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO v_ended FROM ended;
  DELETE FROM sluice.leases WHERE replica = ANY (v_ended);
  RETURN v_ended;
END $$;
`;

/**
 * Serializes registrations, so that the ids of replicas are in the order of their commits. Readers of the charges of
 * all replicas rely on it: a replica that appears later has a higher id.
 */
const lockRegistration = `
CREATE FUNCTION sluice.lock_registration() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(7582150);
$$;
`;

/** The type of the amounts that replicas send. */
const amountType = `
DO $$
BEGIN
  CREATE DOMAIN sluice.amount AS bigint CHECK (VALUE >= 0);
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
`;

/**
 * Returns a statement that adds charges to the hours. `charges`: a relation with the columns of the charges.
 * `replica`: the number of the replica that has made them.
 */
export const addToHours = (charges: string, replica: string): string => `
  INSERT INTO sluice.hours AS known
    SELECT hour, replica, md5(jsonb_build_array(workspace_id, key_id, surface, method, model, route, tag)::text)::uuid,
      workspace_id, key_id, surface, method, model, route, tag, count(*),
      sum(included_cu_milli), sum(purchased_cu_milli), sum(overage_cu_milli),
      sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(reasoning_tokens)
    FROM (
      SELECT floor(extract(epoch FROM time) * 1000 / ${monthWindow.stepMs})::bigint AS hour, ${replica} AS replica,
        workspace_id, key_id, surface, method, coalesce(model, '') AS model, coalesce(route, '') AS route,
        coalesce(agent ->> 'name', '') AS tag, included_cu_milli, purchased_cu_milli, overage_cu_milli,
        input_tokens, output_tokens, cached_tokens, reasoning_tokens
      FROM ${charges}) AS each
    GROUP BY hour, replica, workspace_id, key_id, surface, method, model, route, tag
    ON CONFLICT (hour, replica, names) DO UPDATE SET
      calls = known.calls + excluded.calls,
      included = known.included + excluded.included,
      purchased = known.purchased + excluded.purchased,
      overage = known.overage + excluded.overage,
      input_tokens = known.input_tokens + excluded.input_tokens,
      output_tokens = known.output_tokens + excluded.output_tokens,
      cached_tokens = known.cached_tokens + excluded.cached_tokens,
      reasoning_tokens = known.reasoning_tokens + excluded.reasoning_tokens`;

/**
 * Adds the charges of a batch to the table, to the sums of the hours, to the windows of their keys and to the draws of
 * their workspaces. They count in the windows from `p_now` on, by the clock of the database, because until now they counted as granted. A charge
 * that no lease covers, which a gateway has made without a database (`taken` is null), counts at its own time.
 */
const recordCharges = `
CREATE FUNCTION sluice.record_charges(p_replica bigint, p_rows json, p_now bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_month timestamp;
BEGIN
  FOR v_month IN
    SELECT DISTINCT date_trunc('month', time AT TIME ZONE 'UTC')
    FROM json_to_recordset(p_rows) AS r (time timestamptz)
  LOOP
    PERFORM sluice.make_partition(v_month);
  END LOOP;
  WITH posted AS MATERIALIZED (
    SELECT time, seq, workspace_id, key_id, surface, method, model, request_id, agent, pricing,
      included_cu_milli, purchased_cu_milli, overage_cu_milli, input_tokens, output_tokens,
      coalesce(cached_tokens, 0) AS cached_tokens, coalesce(reasoning_tokens, 0) AS reasoning_tokens,
      estimated, outcome, route, taken,
      included_cu_milli + purchased_cu_milli + overage_cu_milli AS used,
      (extract(epoch FROM time) * 1000)::bigint AS at
    FROM json_to_recordset(p_rows) AS r (
      time timestamptz, seq bigint, workspace_id text, key_id text, surface text, method text,
      model text, request_id text, agent jsonb, pricing jsonb, included_cu_milli sluice.amount,
      purchased_cu_milli sluice.amount, overage_cu_milli sluice.amount, input_tokens bigint,
      output_tokens bigint, cached_tokens bigint, reasoning_tokens bigint, estimated boolean,
      outcome text, route text, taken bigint[])
  ), kept AS (
    INSERT INTO sluice.charges (time, replica, seq, workspace_id, key_id, surface, method, model,
        request_id, agent, pricing, included_cu_milli, purchased_cu_milli, overage_cu_milli,
        input_tokens, output_tokens, cached_tokens, reasoning_tokens, estimated, outcome, route)
      SELECT time, p_replica, seq, workspace_id, key_id, surface, method, model, request_id, agent,
        pricing, included_cu_milli, purchased_cu_milli, overage_cu_milli, input_tokens,
        output_tokens, cached_tokens, reasoning_tokens, estimated, outcome, route
      FROM posted
  ), summed AS (${addToHours("posted", "p_replica")}
  ), stepped AS (
    INSERT INTO sluice.key_steps
      SELECT key_id, kind, CASE WHEN taken IS NULL THEN least(at, p_now) ELSE p_now END / length,
        p_replica, sum(used)
      FROM posted,
        (VALUES ('day', ${dayWindow.stepMs}), ('month', ${monthWindow.stepMs})) AS windows (kind, length)
      GROUP BY 1, 2, 3
      ON CONFLICT (key_id, kind, step, replica)
        DO UPDATE SET milli_cu = key_steps.milli_cu + excluded.milli_cu
  )
  INSERT INTO sluice.draws AS known
    SELECT workspace_id, sluice.period_of(least(at, p_now)), p_replica,
      ARRAY[sum(included_cu_milli), sum(purchased_cu_milli), sum(overage_cu_milli)]
    FROM posted GROUP BY 1, 2
    ON CONFLICT (workspace_id, period, replica)
      DO UPDATE SET amounts = sluice.plus(known.amounts, excluded.amounts);
END $$;
`;

/** The script that runs before those of the functions. */
export const tables: string = [
  amountType,
  takeOver,
  replicasAndCharges,
  credit,
  clock,
  amounts,
  makePartition,
  lockRegistration,
  recordCharges,
  endSilent,
].join("\n");
