/** Tables and functions of the copy of the charges in PostgreSQL. Functions are the only way in which gateways write. */
import type { Migration } from "sluice-gateway/postgres";

/** A replica that has not been heard for this time counts as ended when another one registers. */
const silentAfter = "10 seconds";

/**
 * `replicas` has one row per journal, which is one data folder. `starts` counts the starts of a gateway on it: only the
 * newest start may post. `posted` is the number of the last commit of the journal whose charges are in `charges`, and
 * `posted_check` is a digest of that commit.
 *
 * `seq` of a charge is the number of its commit times 1,000,000 plus its place in the commit. Amounts are in milli-CU.
 */
const tables = `
CREATE TABLE sluice.replicas (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  journal text NOT NULL UNIQUE,
  name text NOT NULL,
  version text NOT NULL,
  state text NOT NULL CHECK (state IN ('live', 'silent', 'gone')),
  starts bigint NOT NULL,
  posted bigint NOT NULL,
  posted_check bytea,
  heard_at timestamptz NOT NULL
);

CREATE TABLE sluice.charges (
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
  PRIMARY KEY (time, replica, seq)
) PARTITION BY RANGE (time);
CREATE INDEX charges_by_workspace ON sluice.charges (workspace_id, time);

CREATE VIEW sluice.usage AS
  SELECT format('chg_%s_%s_%s', r.journal, c.seq / 1000000, c.seq % 1000000) AS id,
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
  IF to_regclass('sluice.' || part) IS NOT NULL THEN RETURN; END IF;
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.charges INCLUDING DEFAULTS)', part);
  EXECUTE format(
    'ALTER TABLE sluice.charges ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
    part, p_month AT TIME ZONE 'UTC', (p_month + interval '1 month') AT TIME ZONE 'UTC');
END $$;
`;

/**
 * Makes this start the one that may post for its journal. The outcome is \`registered\`, or \`in_use\` with the name of
 * another live replica.
 */
const register = `
CREATE FUNCTION sluice.register(p_journal text, p_name text, p_version text)
RETURNS TABLE (outcome text, id bigint, starts bigint, posted bigint, other text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_other text;
BEGIN
  PERFORM pg_advisory_xact_lock(7582145);
  UPDATE sluice.replicas SET state = 'silent'
    WHERE state = 'live' AND journal <> p_journal
      AND heard_at < clock_timestamp() - interval '${silentAfter}';
  SELECT name INTO v_other FROM sluice.replicas
    WHERE state = 'live' AND journal <> p_journal LIMIT 1;
  IF FOUND THEN
    RETURN QUERY SELECT 'in_use', NULL::bigint, NULL::bigint, NULL::bigint, v_other;
    RETURN;
  END IF;
  RETURN QUERY
    INSERT INTO sluice.replicas AS r (journal, name, version, state, starts, posted, heard_at)
    VALUES (p_journal, p_name, p_version, 'live', 1, 0, clock_timestamp())
    ON CONFLICT (journal) DO UPDATE SET name = excluded.name, version = excluded.version,
      state = 'live', starts = r.starts + 1, heard_at = excluded.heard_at
    RETURNING 'registered', r.id, r.starts, r.posted, NULL;
END $$;
`;

/**
 * Adds the charges of the commits from \`p_first\` to \`p_last\`, if the commit before \`p_first\` is the last one that was
 * posted. This comparison makes every charge count exactly once, however often a batch is sent. Outcomes: \`posted\`;
 * \`moved\`, if another commit was posted last; \`replaced\`, if a newer start has registered; \`silent\`, if this replica
 * counts as ended. No row: the replica is unknown.
 */
const post = `
CREATE FUNCTION sluice.post(
  p_replica bigint, p_start bigint, p_first bigint, p_last bigint, p_check bytea, p_rows json)
RETURNS TABLE (outcome text, posted bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
DECLARE
  v_month timestamp;
BEGIN
  UPDATE sluice.replicas
    SET posted = p_last, posted_check = coalesce(p_check, posted_check), heard_at = clock_timestamp()
    WHERE id = p_replica AND starts = p_start AND state = 'live' AND posted = p_first - 1;
  IF NOT FOUND THEN
    RETURN QUERY SELECT
      CASE WHEN starts <> p_start THEN 'replaced' WHEN state <> 'live' THEN 'silent' ELSE 'moved' END,
      posted
      FROM sluice.replicas WHERE id = p_replica;
    RETURN;
  END IF;
  FOR v_month IN
    SELECT DISTINCT date_trunc('month', time AT TIME ZONE 'UTC')
    FROM json_to_recordset(p_rows) AS r (time timestamptz)
  LOOP
    PERFORM sluice.make_partition(v_month);
  END LOOP;
  INSERT INTO sluice.charges
    SELECT time, p_replica, seq, workspace_id, key_id, surface, method, model, request_id, agent,
      pricing, included_cu_milli, purchased_cu_milli, overage_cu_milli, input_tokens,
      output_tokens, estimated, outcome
    FROM json_to_recordset(p_rows) AS r (
      time timestamptz, seq bigint, workspace_id text, key_id text, surface text, method text,
      model text, request_id text, agent jsonb, pricing jsonb, included_cu_milli bigint,
      purchased_cu_milli bigint, overage_cu_milli bigint, input_tokens bigint,
      output_tokens bigint, estimated boolean, outcome text);
  RETURN QUERY SELECT 'posted', p_last;
END $$;
`;

/** Reports that this start has ended, so that another gateway may register at once. */
const leave = `
CREATE FUNCTION sluice.leave(p_replica bigint, p_start bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  UPDATE sluice.replicas SET state = 'gone' WHERE id = p_replica AND starts = p_start;
$$;
`;

/** The scripts of the copy of the charges, for `upgradeSchema`. */
export const chargeMigrations: readonly Migration[] = [
  { name: "charges", sql: [tables, makePartition, register, post, leave].join("\n") },
];
