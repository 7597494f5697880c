/** The daily and monthly sums of charges in PostgreSQL. */

/**
 * `spend` has one row per scope, member, span, start and name. `scope`: a workspace, or an empty text for all. An empty
 * `name` is a missing one. Only the sums of all workspaces have months. `spend_read` has, for each replica, the number of
 * the last charge that the sums include.
 */
const tables = `
CREATE TABLE IF NOT EXISTS sluice.spend (
  scope text, member text, span text, start date, name text,
  calls bigint NOT NULL, included bigint NOT NULL, purchased bigint NOT NULL,
  overage bigint NOT NULL, input_tokens bigint NOT NULL, output_tokens bigint NOT NULL,
  PRIMARY KEY (scope, member, span, start, name)
) WITH (fillfactor = 80);
CREATE TABLE IF NOT EXISTS sluice.spend_read (replica bigint PRIMARY KEY, seq bigint NOT NULL);
`;

/**
 * Adds at most about `p_max` new charges to the sums. Returns whether there are more. Only the numbers up to
 * `posted` are read: all of these charges have been committed.
 */
const addCharges = `
CREATE FUNCTION sluice.add_spend(p_max bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v_replica record;
  v_left bigint := p_max;
  v_count bigint;
  v_last bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(7582149);
  FOR v_replica IN
    SELECT * FROM (
      SELECT r.id, coalesce(s.seq, -1) AS after, posted AS last
      FROM sluice.replicas r LEFT JOIN sluice.spend_read s ON s.replica = r.id) AS each
    WHERE last > after ORDER BY id
  LOOP
    IF v_left <= 0 THEN RETURN true; END IF;
    SELECT count(*), max(seq) INTO v_count, v_last FROM (
      SELECT seq FROM sluice.charges
      WHERE replica = v_replica.id AND seq > v_replica.after AND seq <= v_replica.last
      ORDER BY seq LIMIT v_left) AS next;
    IF v_count < v_left THEN v_last := v_replica.last; END IF;
    v_left := v_left - v_count;
    INSERT INTO sluice.spend AS known
      SELECT scope, member, span,
        CASE span WHEN 'day' THEN day ELSE date_trunc('month', day::timestamp)::date END,
        coalesce(name, ''), sum(calls), sum(included), sum(purchased), sum(overage),
        sum(input_tokens), sum(output_tokens)
      FROM (
        SELECT (time AT TIME ZONE 'UTC')::date AS day, workspace_id, key_id, surface, method, model,
          route, agent ->> 'name' AS tag, count(*) AS calls, sum(included_cu_milli) AS included,
          sum(purchased_cu_milli) AS purchased, sum(overage_cu_milli) AS overage,
          sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens
        FROM sluice.charges
        WHERE replica = v_replica.id AND seq > v_replica.after AND seq <= v_last
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
      ) AS charged
      CROSS JOIN LATERAL (VALUES ('workspace', workspace_id), ('key', key_id), ('model', model),
        ('tool', CASE WHEN surface IN ('tool-rpc', 'mcp') THEN method END), ('method', method),
        ('route', route), ('tag', tag)) AS members (member, name)
      CROSS JOIN LATERAL (VALUES (''), (workspace_id)) AS scopes (scope)
      CROSS JOIN (VALUES ('day'), ('month')) AS spans (span)
      WHERE span = 'day' OR scope = ''
      GROUP BY 1, 2, 3, 4, 5
      ON CONFLICT (scope, member, span, start, name) DO UPDATE SET
        calls = known.calls + excluded.calls,
        included = known.included + excluded.included,
        purchased = known.purchased + excluded.purchased,
        overage = known.overage + excluded.overage,
        input_tokens = known.input_tokens + excluded.input_tokens,
        output_tokens = known.output_tokens + excluded.output_tokens;
    INSERT INTO sluice.spend_read VALUES (v_replica.id, v_last)
      ON CONFLICT (replica) DO UPDATE SET seq = excluded.seq;
  END LOOP;
  RETURN v_left <= 0;
END $$;
`;

export const spend: string = [tables, addCharges].join("\n");
