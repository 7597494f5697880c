/**
 * Tables of the replicas, their charges and the credit of several replicas. Amounts are in milli-CU, in arrays with one
 * entry per source; times are in milliseconds since 1970.
 */
import { placesPerCommit } from "../metering/charge-number.ts";

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
  ALTER TABLE sluice.scopes ADD COLUMN version bigint NOT NULL DEFAULT 0;
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

/** `version` of a scope is incremented with every decision about it: see ledger-statements.ts. */
const credit = `
CREATE TABLE IF NOT EXISTS sluice.scopes (
  id text PRIMARY KEY,
  version bigint NOT NULL DEFAULT 0,
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

/** The type of the amounts that replicas send. */
const amountType = `
DO $$
BEGIN
  CREATE DOMAIN sluice.amount AS bigint CHECK (VALUE >= 0);
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;
`;

/** The script that runs before those of the functions. */
export const tables: string = [amountType, takeOver, replicasAndCharges, credit].join("\n");
