/**
 * Functions of the ledger in PostgreSQL. MemoryLedger describes what they do; a test compares the two. Every
 * function is one transaction and one round trip. Amounts are in milli-CU, in arrays with one entry per source; times are
 * in milliseconds since 1970.
 *
 * A transaction locks the row of its replica first, and the rows of scopes in the order of their ids. A replica writes
 * only rows that carry its number, so replicas never deadlock while they post.
 */
import type { Migration } from "sluice-gateway/postgres";
import { exportMigrations } from "../metering/export/schema.ts";
import { silenceMs, unmetMs } from "./memory-ledger.ts";
import { hours } from "./schema-hours.ts";
import { tables } from "./schema-tables.ts";
import { reportFunctions, usageFunctions } from "./schema-usage.ts";

/** Replicas may execute these functions, and have no other right to write. Every wait for a lock has a time limit. */
const entryPoint =
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms'";

const replicas = `
CREATE FUNCTION sluice.standing(p_replica bigint) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(
    (SELECT jsonb_build_object('state', state, 'posted', posted, 'leaseNo', lease_no)
      FROM sluice.replicas WHERE id = p_replica),
    '{"state": "unknown", "posted": 0, "leaseNo": 0}') || jsonb_build_object('time', sluice.now_ms());
$$;

CREATE FUNCTION sluice.credit_register(p_name text, p_mode text, p_version text) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
  v_id bigint;
BEGIN
  PERFORM sluice.lock_registration();
  INSERT INTO sluice.replicas (name, version, mode, state, registered_at, heard_at)
    VALUES (p_name, p_version, p_mode, 'live', v_now, v_now) RETURNING id INTO v_id;
  RETURN sluice.standing(v_id) || jsonb_build_object('replica', v_id);
END $$;

-- Registers a data folder, whose charges are copied.
CREATE FUNCTION sluice.credit_register_folder(p_journal text, p_name text)
RETURNS jsonb LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
  v_id bigint;
BEGIN
  PERFORM sluice.lock_registration();
  INSERT INTO sluice.replicas (journal, name, version, mode, state, registered_at, heard_at)
    VALUES (p_journal, p_name, '', 'local', 'gone', v_now, v_now) ON CONFLICT DO NOTHING;
  SELECT id INTO v_id FROM sluice.replicas WHERE journal = p_journal;
  RETURN sluice.standing(v_id) || jsonb_build_object('replica', v_id);
END $$;

CREATE FUNCTION sluice.credit_feed(p_replica bigint) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_recalls jsonb := '[]';
BEGIN
  UPDATE sluice.replicas SET heard_at = sluice.now_ms()
    WHERE id = p_replica AND state = 'live';
  IF FOUND THEN
    SELECT coalesce(jsonb_agg(jsonb_build_object('scope', s.id, 'recall', s.recall)), '[]')
      INTO v_recalls
      FROM sluice.leases l JOIN sluice.scopes s ON s.id = l.scope
      WHERE l.replica = p_replica AND l.recall < s.recall AND sluice.held(l.granted, l.spent) > 0;
  END IF;
  RETURN sluice.standing(p_replica) || jsonb_build_object('recalls', v_recalls);
END $$;

CREATE FUNCTION sluice.credit_fence(p_replica bigint) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.replicas WHERE id = p_replica AND state = 'live'
      AND v_now - greatest(registered_at, sluice.started_ms()) >= ${silenceMs}) THEN
    RETURN '[]';
  END IF;
  RETURN to_jsonb(sluice.end_silent(v_now));
END $$;

CREATE FUNCTION sluice.credit_leave(p_replica bigint) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
BEGIN
  UPDATE sluice.replicas SET state = 'gone', heard_at = sluice.now_ms()
    WHERE id = p_replica AND state = 'live';
  IF FOUND THEN DELETE FROM sluice.leases WHERE replica = p_replica; END IF;
  RETURN sluice.standing(p_replica);
END $$;
`;

/**
 * The rows of a batch are the charges with the columns of the table, `taken` and `key_taken`: the parts that the
 * leases of the workspace and of the key cover. Both are null for a charge that a gateway has made without a database.
 * Amounts are of the type `sluice.amount`, so a negative one fails.
 */
const post = `
CREATE FUNCTION sluice.credit_post(p_replica bigint, p_first bigint, p_last bigint, p_rows json)
RETURNS jsonb LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
BEGIN
  -- This comparison makes every charge count exactly once, and a fenced replica posts nothing.
  UPDATE sluice.replicas SET posted = p_last, heard_at = v_now
    WHERE id = p_replica AND (state = 'live' OR mode = 'local') AND posted = p_first - 1;
  IF NOT FOUND THEN RETURN sluice.standing(p_replica); END IF;

  PERFORM sluice.record_charges(p_replica, p_rows, v_now);
  WITH posted AS MATERIALIZED (
    SELECT * FROM json_to_recordset(p_rows)
      AS r (workspace_id text, key_id text, taken sluice.amount[], key_taken sluice.amount)
  )
  INSERT INTO sluice.leases AS known
    SELECT scope, p_replica, zero, taken, zero, 0
    FROM (
      SELECT key_id, ARRAY[sum(key_taken)]::bigint[], ARRAY[0]::bigint[] FROM posted GROUP BY 1
      UNION ALL
      SELECT workspace_id, ARRAY[sum(taken[1]), sum(taken[2]), sum(taken[3])]::bigint[],
        ARRAY[0, 0, 0]::bigint[]
      FROM posted GROUP BY 1
    ) AS sums (scope, taken, zero)
    WHERE sluice.total(taken) > 0
    ON CONFLICT (scope, replica) DO UPDATE SET spent = sluice.plus(known.spent, excluded.spent);
  RETURN sluice.standing(p_replica);
END $$;
`;

const lease = `
CREATE FUNCTION sluice.credit_lease(p_replica bigint, p_lease_no bigint, p_wants jsonb) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_want jsonb;
  v_granted jsonb := '[]';
BEGIN
  UPDATE sluice.replicas SET lease_no = p_lease_no, heard_at = sluice.now_ms()
    WHERE id = p_replica AND state = 'live' AND lease_no < p_lease_no;
  IF NOT FOUND THEN RETURN sluice.standing(p_replica); END IF;
  INSERT INTO sluice.scopes (id)
    SELECT want ->> 'scope' FROM jsonb_array_elements(p_wants) AS want ORDER BY 1
    ON CONFLICT DO NOTHING;
  PERFORM FROM sluice.scopes
    WHERE id IN (SELECT want ->> 'scope' FROM jsonb_array_elements(p_wants) AS want)
    ORDER BY id FOR UPDATE;
  FOR v_want IN SELECT want FROM jsonb_array_elements(p_wants) AS want LOOP
    v_granted := v_granted || sluice.grant_want(p_replica, v_want);
  END LOOP;
  RETURN sluice.standing(p_replica) || jsonb_build_object('granted', v_granted);
END $$;

CREATE FUNCTION sluice.grant_want(p_replica bigint, p_want jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  v_now bigint := sluice.now_ms();
  v_scope text := p_want ->> 'scope';
  v_granted bigint[] := sluice.amounts(p_want -> 'grantedMilliCu');
  v_slack bigint[] := sluice.amounts(p_want -> 'slackMilliCu');
  v_answers bigint := (p_want ->> 'recall')::bigint;
  v_extra bigint := (p_want ->> 'extraMilliCu')::bigint;
  v_zero bigint[] := array_fill(0::bigint, ARRAY[cardinality(v_granted)]);
  v_other_slack bigint[] := v_zero;
  v_reach int := cardinality(v_granted);
  v_has_new_slack boolean := false;
  v_is_new boolean := (p_want ->> 'isNew')::boolean;
  v_answered bigint;
  v_unmet bigint := 0;
  v_least_unmet bigint;
  v_missing bigint := 0;
  v_held bigint := 0;
  v_is_hopeless boolean;
  v_unmet_at bigint;
  v_recall bigint;
  v_tight boolean;
  v_left bigint[];
  v_taken bigint[];
  v_need bigint;
  v_other record;
BEGIN
  -- A replica that counts from zero has no charges of this scope on their way.
  INSERT INTO sluice.leases AS known
    VALUES (v_scope, p_replica, v_granted, v_zero, v_slack, v_answers)
    ON CONFLICT (scope, replica) DO UPDATE
      SET granted = excluded.granted, slack = excluded.slack, recall = excluded.recall,
        spent = CASE WHEN v_is_new THEN v_zero ELSE known.spent END;
  SELECT greatest(recall, v_answers), is_tight, unmet_at INTO v_recall, v_tight, v_unmet_at
    FROM sluice.scopes WHERE id = v_scope;

  FOR v_other IN
    SELECT l.slack, l.recall, sluice.held(l.granted, l.spent) AS held FROM sluice.leases l JOIN sluice.replicas r ON r.id = l.replica
    WHERE l.scope = v_scope AND r.id <> p_replica AND r.state = 'live'
      AND sluice.held(l.granted, l.spent) > 0
  LOOP
    v_held := v_held + v_other.held;
    v_other_slack := sluice.plus(v_other_slack, v_other.slack);
    v_answered := least(v_answered, v_other.recall);
    v_has_new_slack := v_has_new_slack OR
      (sluice.total(v_other.slack) > 0 AND v_other.recall = v_recall);
  END LOOP;
  -- This must follow the loop: if a replica is fenced between the two statements, it counts as one that has not answered.
  -- In the other order, its credit would count as held although nobody is waited for.
  v_left := sluice.left_in(v_scope, p_want -> 'limits', v_now);
  IF NOT (p_want ->> 'anySource')::boolean THEN
    FOR i IN REVERSE v_reach .. 1 LOOP
      IF v_other_slack[i] > 0 THEN v_reach := i; END IF;
    END LOOP;
  END IF;

  FOR v_need IN SELECT need::bigint FROM jsonb_array_elements_text(p_want -> 'needsMilliCu') AS need
  LOOP
    v_taken := sluice.take_in_order(v_left[1:v_reach], v_need);
    IF sluice.total(v_taken) = v_need THEN
      v_granted := sluice.plus(v_granted, v_taken);
      v_left := sluice.minus(v_left, v_taken);
    ELSE
      IF v_unmet = 0 THEN v_unmet := v_need; END IF;
      v_least_unmet := least(v_least_unmet, v_need);
    END IF;
  END LOOP;
  IF v_unmet > 0 THEN v_missing := v_least_unmet - sluice.total(v_left); END IF;
  v_is_hopeless := v_missing > v_held;

  IF v_unmet > 0 AND NOT v_is_hopeless THEN v_unmet_at := v_now; END IF;
  IF v_unmet > 0 AND NOT v_is_hopeless AND ((p_want ->> 'hasNewNeeds')::boolean OR v_has_new_slack) THEN
    IF sluice.total(v_slack) = 0 AND v_answers = v_recall THEN v_answers := v_answers + 1; END IF;
    v_recall := v_recall + 1;
    v_tight := true;
  END IF;
  IF v_unmet = 0 AND v_extra > 0 THEN
    FOR i IN 1 .. v_reach LOOP
      CONTINUE WHEN v_left[i] = 0;
      v_need := v_left[i] / (2 * (SELECT count(*) FROM sluice.replicas WHERE state = 'live'));
      v_tight := v_tight AND (v_need < v_extra OR v_now - v_unmet_at < ${unmetMs});
      IF NOT v_tight THEN
        v_granted[i] := v_granted[i] + least(v_need, v_extra);
        v_slack[i] := v_slack[i] + least(v_need, v_extra);
      END IF;
      EXIT;
    END LOOP;
  END IF;

  IF v_is_new AND sluice.total(v_granted) = 0 THEN
    DELETE FROM sluice.leases WHERE scope = v_scope AND replica = p_replica;
  ELSE
    UPDATE sluice.leases SET granted = v_granted, slack = v_slack, recall = v_answers
      WHERE scope = v_scope AND replica = p_replica;
  END IF;
  UPDATE sluice.scopes SET recall = v_recall, is_tight = v_tight, unmet_at = v_unmet_at
    WHERE id = v_scope AND (recall, is_tight, unmet_at) <> (v_recall, v_tight, v_unmet_at);
  RETURN jsonb_strip_nulls(jsonb_build_object('scope', v_scope, 'grantedMilliCu', v_granted,
    'recall', v_recall, 'answered', CASE WHEN v_is_hopeless THEN v_recall
      WHEN v_missing <= sluice.total(v_other_slack) THEN 0 ELSE least(v_answered, v_recall) END,
    'isTight', v_tight, 'reached', CASE WHEN v_unmet > 0
      THEN sluice.limit_reached(v_scope, p_want -> 'limits', v_now, v_unmet) END));
END $$;
`;

const script = [tables, hours, replicas, post, usageFunctions, lease, reportFunctions].join("\n");

/** The scripts of the charges and of the credit that gateways share, for `upgradeSchema`. */
export const chargeMigrations: readonly Migration[] = [
  { name: "shared credit", sql: script, excludesOlder: true },
  ...exportMigrations,
];
