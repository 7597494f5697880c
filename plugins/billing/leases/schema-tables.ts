/**
 * Tables of the replicas, their charges and the credit of several replicas. Amounts are in milli-CU, and times are in
 * milliseconds since 1970.
 */
import { placesPerCommit } from "../metering/charge-number.ts";

/** The functions of earlier versions. The scripts below create those that are still needed. */
const earlierFunctions = `
  state_heard credit_register credit_register_start credit_feed credit_fence credit_leave credit_lease
  credit_post grant_want standing credit_end credit_sweep key_usage workspace_usage reserved_in
  drawn_in limit_reached window_clears_at left_in not_posted drawn windows window_sum add_spend
  end_silent record_charges lock_registration make_partition held minus take_in_order plus total
  amounts period_of period_end started_ms find_slot take_slot
`;

/** Returns the start of the month (UTC) of a time, both in milliseconds since 1970. */
export const monthOfSql = (time: string): string =>
  `(extract(epoch FROM date_trunc('month', to_timestamp(${time} / 1000) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC') * 1000)::bigint`;

/**
 * Ends the gateways of an earlier version, because they call functions that no longer exist. A gateway with
 * `durability: local` must have ended: it may have charges in its data folder that are not posted, and keeps its credit
 * for them. In the first version, `posted` of a data folder was the number of its last commit.
 *
 * A charge was divided by sources, and so were the sums of a workspace. Those of months that have ended stay divided,
 * in `fixed` of its scope. The sum of the current month is divided by `limits`, which give the same amounts until the
 * next request states the real ones.
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
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'sluice.replicas'::regclass AND attname = 'session' AND NOT attisdropped) THEN
    UPDATE sluice.replicas SET posted = (posted + 1) * ${placesPerCommit} - 1 WHERE mode = 'local';
    ALTER TABLE sluice.replicas DROP COLUMN session, DROP COLUMN starts, DROP COLUMN posted_check;
  END IF;
  UPDATE sluice.replicas SET state = 'fenced' WHERE state = 'live';
  DROP FUNCTION IF EXISTS ${earlierFunctions.trim().replaceAll(/\s+/g, ", ").replaceAll(/(\w+)/g, "sluice.$1")};
  DROP VIEW sluice.usage;
  UPDATE sluice.charges SET included_cu_milli = included_cu_milli + purchased_cu_milli + overage_cu_milli
    WHERE purchased_cu_milli + overage_cu_milli > 0;
  ALTER TABLE sluice.charges DROP COLUMN purchased_cu_milli, DROP COLUMN overage_cu_milli;
  ALTER TABLE sluice.charges RENAME COLUMN included_cu_milli TO used_cu_milli;
  DROP TABLE sluice.scopes, sluice.leases;
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
  used_cu_milli bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  estimated boolean NOT NULL,
  outcome text NOT NULL,
  route text,
  PRIMARY KEY (time, replica, seq)
) PARTITION BY RANGE (time);
CREATE INDEX IF NOT EXISTS charges_by_workspace ON sluice.charges (workspace_id, time);

CREATE VIEW sluice.usage AS
  SELECT format('chg_%s_%s_%s', r.journal, c.seq / ${placesPerCommit}, c.seq % ${placesPerCommit}) AS id,
    c.* FROM sluice.charges c JOIN sluice.replicas r ON r.id = c.replica;
`;

/**
 * `version` of a scope is incremented with every decision about it: see ledger-statements.ts. `limits` and `fixed` are
 * those of `ScopeState`.
 *
 * `used` has the posted charges by replica: for a key those of each step of its windows (kinds `day` and `month`), and
 * for a workspace those of each month, by its start (kind `period`).
 */
const credit = `
CREATE TABLE sluice.scopes (
  id text PRIMARY KEY,
  version bigint NOT NULL DEFAULT 0,
  epoch bigint NOT NULL DEFAULT 0,
  limits jsonb,
  fixed jsonb NOT NULL DEFAULT '[]'
);
CREATE TABLE sluice.leases (
  scope text, replica bigint, granted bigint NOT NULL, spent bigint NOT NULL,
  slack bigint NOT NULL DEFAULT 0, waits bigint NOT NULL DEFAULT 0, epoch bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (scope, replica)
);
CREATE INDEX leases_replica_idx ON sluice.leases (replica);
CREATE TABLE sluice.used (
  scope text, kind text, step bigint, replica bigint, milli_cu bigint NOT NULL,
  PRIMARY KEY (scope, kind, step, replica)
) WITH (fillfactor = 70);
DO $$
BEGIN
  IF to_regclass('sluice.draws') IS NULL THEN RETURN; END IF;
  INSERT INTO sluice.used SELECT key_id, kind, step, replica, milli_cu FROM sluice.key_steps
    UNION ALL SELECT workspace_id, 'period', period, replica, amounts[1] + amounts[2] + amounts[3] FROM sluice.draws;
  INSERT INTO sluice.scopes (id, limits, fixed)
    SELECT workspace_id,
      jsonb_build_object('kind', 'workspace', 'purchasedMilliCu', sum(purchased),
        'includedMilliCu', coalesce(sum(included) FILTER (WHERE NOT has_ended), 0),
        'overageMilliCu', coalesce(sum(overage) FILTER (WHERE NOT has_ended), 0)),
      coalesce(jsonb_agg(jsonb_build_object('start', period, 'includedMilliCu', included,
        'purchasedMilliCu', purchased, 'overageMilliCu', overage)) FILTER (WHERE has_ended), '[]')
    FROM (SELECT workspace_id, period, period < ${monthOfSql("sluice.now_ms()")} AS has_ended,
        sum(amounts[1]) AS included, sum(amounts[2]) AS purchased, sum(amounts[3]) AS overage
      FROM sluice.draws GROUP BY 1, 2) AS months
    GROUP BY 1;
  DROP TABLE sluice.draws, sluice.key_steps;
END $$;
`;

const amountType = `
DO $$
BEGIN
  CREATE DOMAIN sluice.amount AS bigint CHECK (VALUE >= 0);
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
`;

export const tables: string = [amountType, takeOver, replicasAndCharges, credit].join("\n");
