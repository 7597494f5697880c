/**
 * Tables and functions of the ledger in PostgreSQL. MemoryLedger describes what they do; a test compares the two. Every
 * function is one transaction and one round trip. Amounts are in milli-CU, in arrays with one entry per source; times are
 * in milliseconds since 1970.
 *
 * A transaction locks the row of its replica first, and the rows of scopes in the order of their ids. A replica writes
 * only rows that carry its number, so two replicas never wait for each other while they post.
 */
import { dayWindow, monthWindow } from "../metering/windows.ts";
import { silenceMs } from "./memory-ledger.ts";
import { usageFunctions } from "./schema-usage.ts";

/** Replicas may execute these functions, and have no other right to write. A lock is never waited for without end. */
const entryPoint =
  "SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms'";

const tables = `
CREATE SCHEMA IF NOT EXISTS sluice;
CREATE TABLE sluice.credit_replicas (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('settled', 'local', 'async')),
  state text NOT NULL CHECK (state IN ('live', 'silent', 'fenced', 'gone')),
  registered_at bigint NOT NULL,
  heard_at bigint NOT NULL,
  posted bigint NOT NULL,
  lease_no bigint NOT NULL
);
CREATE UNIQUE INDEX ON sluice.credit_replicas (name)
  WHERE mode = 'local' AND state IN ('live', 'silent');
CREATE TABLE sluice.scopes (
  id text PRIMARY KEY,
  recall bigint NOT NULL DEFAULT 0,
  is_tight boolean NOT NULL DEFAULT false
);
CREATE TABLE sluice.leases (
  scope text, replica bigint, granted bigint[] NOT NULL, spent bigint[] NOT NULL,
  slack bigint[] NOT NULL, recall bigint NOT NULL,
  PRIMARY KEY (scope, replica)
);
CREATE INDEX ON sluice.leases (replica);
CREATE TABLE sluice.key_steps (
  key_id text, kind text, step bigint, replica bigint, milli_cu bigint NOT NULL,
  PRIMARY KEY (key_id, kind, step, replica)
) WITH (fillfactor = 70);
CREATE TABLE sluice.draws (
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
`;

/** The same as amounts.ts. */
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

const replicas = `
CREATE FUNCTION sluice.standing(p_replica bigint) RETURNS jsonb LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(
    (SELECT jsonb_build_object('state', state, 'posted', posted, 'leaseNo', lease_no)
      FROM sluice.credit_replicas WHERE id = p_replica),
    '{"state": "unknown", "posted": 0, "leaseNo": 0}') || jsonb_build_object('time', sluice.now_ms());
$$;

CREATE FUNCTION sluice.credit_register(p_name text, p_mode text) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
  v_id bigint;
BEGIN
  UPDATE sluice.credit_replicas SET state = 'live', heard_at = v_now
    WHERE p_mode = 'local' AND mode = 'local' AND name = p_name AND state IN ('live', 'silent')
    RETURNING id INTO v_id;
  IF v_id IS NULL THEN
    INSERT INTO sluice.credit_replicas
      (name, mode, state, registered_at, heard_at, posted, lease_no)
      VALUES (p_name, p_mode, 'live', v_now, v_now, 0, 0) RETURNING id INTO v_id;
  END IF;
  RETURN sluice.standing(v_id) || jsonb_build_object('replica', v_id);
END $$;

CREATE FUNCTION sluice.credit_feed(p_replica bigint) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_recalls jsonb := '[]';
BEGIN
  UPDATE sluice.credit_replicas SET state = 'live', heard_at = sluice.now_ms()
    WHERE id = p_replica AND state IN ('live', 'silent');
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
  v_fenced bigint[];
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.credit_replicas WHERE id = p_replica AND state = 'live'
      AND v_now - greatest(registered_at, sluice.started_ms()) >= ${silenceMs}) THEN
    RETURN '[]';
  END IF;
  WITH silent AS (
    SELECT id FROM sluice.credit_replicas
      WHERE state = 'live' AND v_now - heard_at > ${silenceMs} FOR UPDATE SKIP LOCKED
  ), ended AS (
    UPDATE sluice.credit_replicas r
      SET state = CASE mode WHEN 'local' THEN 'silent' ELSE 'fenced' END
      FROM silent WHERE r.id = silent.id RETURNING r.id
  )
  SELECT coalesce(array_agg(id ORDER BY id), '{}') INTO v_fenced FROM ended;
  DELETE FROM sluice.leases l USING sluice.credit_replicas r
    WHERE l.replica = r.id AND r.id = ANY (v_fenced) AND r.state = 'fenced';
  RETURN to_jsonb(v_fenced);
END $$;

CREATE FUNCTION sluice.credit_leave(p_replica bigint) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
BEGIN
  UPDATE sluice.credit_replicas SET state = 'gone', heard_at = sluice.now_ms()
    WHERE id = p_replica AND state IN ('live', 'silent');
  IF FOUND THEN
    DELETE FROM sluice.leases WHERE replica = p_replica;
  END IF;
  RETURN sluice.standing(p_replica);
END $$;
`;

const post = `
CREATE FUNCTION sluice.credit_post(p_replica bigint, p_first bigint, p_charges jsonb) RETURNS jsonb
LANGUAGE plpgsql ${entryPoint} AS $$
DECLARE
  v_now bigint := sluice.now_ms();
BEGIN
  -- This comparison makes every charge count exactly once, and a fenced replica posts nothing.
  UPDATE sluice.credit_replicas
    SET posted = p_first + jsonb_array_length(p_charges) - 1, state = 'live', heard_at = v_now
    WHERE id = p_replica AND state IN ('live', 'silent') AND posted = p_first - 1;
  IF NOT FOUND THEN RETURN sluice.standing(p_replica); END IF;

  INSERT INTO sluice.key_steps
    SELECT charge ->> 'keyId', kind, v_now / length, p_replica,
      sum(sluice.total(sluice.amounts(charge -> 'splitMilliCu')))
    FROM jsonb_array_elements(p_charges) AS charge,
      (VALUES ('day', ${dayWindow.stepMs}), ('month', ${monthWindow.stepMs})) AS windows (kind, length)
    GROUP BY 1, 2, 3
    ON CONFLICT (key_id, kind, step, replica)
      DO UPDATE SET milli_cu = key_steps.milli_cu + excluded.milli_cu;

  INSERT INTO sluice.draws AS known
    SELECT charge ->> 'workspaceId', sluice.period_of(least((charge ->> 'time')::bigint, v_now)),
      p_replica, ARRAY[
        sum((charge -> 'splitMilliCu' ->> 0)::bigint), sum((charge -> 'splitMilliCu' ->> 1)::bigint),
        sum((charge -> 'splitMilliCu' ->> 2)::bigint)]
    FROM jsonb_array_elements(p_charges) AS charge GROUP BY 1, 2
    ON CONFLICT (workspace_id, period, replica)
      DO UPDATE SET amounts = sluice.plus(known.amounts, excluded.amounts);

  INSERT INTO sluice.leases AS known
    SELECT scope, p_replica, zero, taken, zero, 0
    FROM (
      SELECT charge ->> 'keyId', ARRAY[sum((charge ->> 'keyTakenMilliCu')::bigint)]::bigint[],
        ARRAY[0]::bigint[]
      FROM jsonb_array_elements(p_charges) AS charge GROUP BY 1
      UNION ALL
      SELECT charge ->> 'workspaceId', ARRAY[
        sum((charge -> 'takenMilliCu' ->> 0)::bigint), sum((charge -> 'takenMilliCu' ->> 1)::bigint),
        sum((charge -> 'takenMilliCu' ->> 2)::bigint)]::bigint[], ARRAY[0, 0, 0]::bigint[]
      FROM jsonb_array_elements(p_charges) AS charge GROUP BY 1
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
  UPDATE sluice.credit_replicas
    SET lease_no = p_lease_no, state = 'live', heard_at = sluice.now_ms()
    WHERE id = p_replica AND state IN ('live', 'silent') AND lease_no < p_lease_no;
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
  v_answered bigint;
  v_unmet bigint := 0;
  v_recall bigint;
  v_tight boolean;
  v_left bigint[];
  v_taken bigint[];
  v_need bigint;
  v_other record;
BEGIN
  INSERT INTO sluice.leases VALUES (v_scope, p_replica, v_granted, v_zero, v_slack, v_answers)
    ON CONFLICT (scope, replica)
      DO UPDATE SET granted = excluded.granted, slack = excluded.slack, recall = excluded.recall;
  SELECT greatest(recall, v_answers), is_tight INTO v_recall, v_tight
    FROM sluice.scopes WHERE id = v_scope;
  v_left := sluice.left_in(v_scope, p_want -> 'limits', v_now);

  FOR v_other IN
    SELECT l.slack, l.recall FROM sluice.leases l JOIN sluice.credit_replicas r ON r.id = l.replica
    WHERE l.scope = v_scope AND r.id <> p_replica AND r.state = 'live'
      AND sluice.held(l.granted, l.spent) > 0
  LOOP
    v_other_slack := sluice.plus(v_other_slack, v_other.slack);
    IF sluice.total(v_other.slack) = 0 THEN v_answered := least(v_answered, v_other.recall);
    ELSE
      v_answered := 0;
      v_has_new_slack := v_has_new_slack OR v_other.recall = v_recall;
    END IF;
  END LOOP;
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
    ELSIF v_unmet = 0 THEN v_unmet := v_need;
    END IF;
  END LOOP;

  IF v_unmet > 0 AND ((p_want ->> 'hasNewNeeds')::boolean OR v_has_new_slack) THEN
    IF sluice.total(v_slack) = 0 AND v_answers = v_recall THEN v_answers := v_answers + 1; END IF;
    v_recall := v_recall + 1;
    v_tight := true;
  END IF;
  IF v_unmet = 0 AND v_extra > 0 THEN
    FOR i IN 1 .. v_reach LOOP
      CONTINUE WHEN v_left[i] = 0;
      v_need := v_left[i] / (2 * (SELECT count(*) FROM sluice.credit_replicas WHERE state = 'live'));
      v_tight := v_tight AND v_need < v_extra;
      IF NOT v_tight THEN
        v_granted[i] := v_granted[i] + least(v_need, v_extra);
        v_slack[i] := v_slack[i] + least(v_need, v_extra);
      END IF;
      EXIT;
    END LOOP;
  END IF;

  UPDATE sluice.leases SET granted = v_granted, slack = v_slack, recall = v_answers
    WHERE scope = v_scope AND replica = p_replica;
  UPDATE sluice.scopes SET recall = v_recall, is_tight = v_tight
    WHERE id = v_scope AND (recall <> v_recall OR is_tight <> v_tight);
  RETURN jsonb_strip_nulls(jsonb_build_object('scope', v_scope, 'grantedMilliCu', v_granted,
    'recall', v_recall, 'answered', coalesce(least(v_answered, v_recall), v_recall),
    'isTight', v_tight, 'reached', CASE WHEN v_unmet > 0
      THEN sluice.limit_reached(v_scope, p_want -> 'limits', v_now, v_unmet) END));
END $$;
`;

/** The statements that create the ledger in an empty database. */
export const ledgerSchema: string = [
  tables,
  clock,
  amounts,
  replicas,
  post,
  usageFunctions,
  lease,
].join("\n");
