/** SQL functions that compute the used and the remaining credit. The functions that grant leases call them. */
import { dayWindow, monthWindow } from "../metering/windows.ts";

export const usageFunctions = `
CREATE FUNCTION sluice.window_sum(p_key text, p_kind text, p_oldest bigint) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(milli_cu), 0)::bigint FROM sluice.key_steps
  WHERE key_id = p_key AND kind = p_kind AND step >= p_oldest;
$$;
CREATE FUNCTION sluice.windows(p_key text, p_now bigint, OUT day bigint, OUT month bigint)
LANGUAGE sql STABLE AS $$
  SELECT sluice.window_sum(p_key, 'day', p_now / ${dayWindow.stepMs} - ${dayWindow.steps}),
    sluice.window_sum(p_key, 'month', p_now / ${monthWindow.stepMs} - ${monthWindow.steps});
$$;
CREATE FUNCTION sluice.drawn(p_workspace text, p_now bigint) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY[
    coalesce(sum(amounts[1]) FILTER (WHERE period = sluice.period_of(p_now)), 0),
    coalesce(sum(amounts[2]), 0),
    coalesce(sum(amounts[3]) FILTER (WHERE period = sluice.period_of(p_now)), 0)]::bigint[]
  FROM sluice.draws WHERE workspace_id = p_workspace;
$$;
CREATE FUNCTION sluice.not_posted(p_scope text, p_limits jsonb, p_now bigint) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
  SELECT CASE p_limits ->> 'kind'
    WHEN 'key' THEN ARRAY[least((p_limits ->> 'dayMilliCu')::bigint - day,
      (p_limits ->> 'monthMilliCu')::bigint - month)]
    ELSE sluice.minus(ARRAY[(p_limits ->> 'includedMilliCu')::bigint,
      (p_limits ->> 'purchasedMilliCu')::bigint, (p_limits ->> 'overageMilliCu')::bigint],
      sluice.drawn(p_scope, p_now)) END
  FROM sluice.windows(p_scope, p_now);
$$;
-- What is posted and what is held must be read in one snapshot, because a post moves an amount from one to the other.
-- This function is one statement that calls only stable functions, which use its snapshot.
CREATE FUNCTION sluice.left_in(p_scope text, p_limits jsonb, p_now bigint) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
  SELECT array_agg(greatest(0, rest - (
      SELECT coalesce(sum(greatest(granted[place] - spent[place], 0)), 0)
      FROM sluice.leases WHERE scope = p_scope))::bigint ORDER BY place)
  FROM unnest(sluice.not_posted(p_scope, p_limits, p_now)) WITH ORDINALITY AS each (rest, place);
$$;
-- The same as windowClearsAt in ledger-usage.ts.
CREATE FUNCTION sluice.window_clears_at(p_key text, p_kind text, p_now bigint, p_limit bigint, p_open bigint)
RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT (min(step) + steps + 1) * step_ms
  FROM (VALUES ('day', ${dayWindow.stepMs}::bigint, ${dayWindow.steps}), ('month', ${monthWindow.stepMs}, ${monthWindow.steps}))
    AS shape (kind, step_ms, steps)
  CROSS JOIN LATERAL (
    SELECT step, sum(sum(milli_cu)) OVER () AS total, sum(sum(milli_cu)) OVER (ORDER BY step) AS gone
    FROM sluice.key_steps k
    WHERE key_id = p_key AND k.kind = p_kind AND step >= p_now / step_ms - steps
    GROUP BY step) AS each
  WHERE shape.kind = p_kind AND total - gone <= least(total - 1,
    CASE p_limit WHEN 0 THEN total ELSE greatest(0, p_limit - 1 - p_open) END)
  GROUP BY steps, step_ms;
$$;
CREATE FUNCTION sluice.limit_reached(p_scope text, p_limits jsonb, p_now bigint, p_need bigint)
RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
DECLARE
  v_open bigint;
  v_day bigint;
  v_month bigint;
  v_drawn bigint[];
  v_limit bigint := (p_limits ->> 'monthMilliCu')::bigint;
BEGIN
  SELECT coalesce(sum(sluice.held(granted, spent)), 0) INTO v_open
    FROM sluice.leases WHERE scope = p_scope;
  IF p_limits ->> 'kind' = 'key' THEN
    SELECT day + v_open, month + v_open INTO v_day, v_month FROM sluice.windows(p_scope, p_now);
    IF v_month + p_need > v_limit THEN
      RETURN jsonb_build_object('window', '30d', 'usedMilliCu', v_month, 'limitMilliCu', v_limit,
        'clearsAt', sluice.window_clears_at(p_scope, 'month', p_now, v_limit, v_open));
    END IF;
    v_limit := (p_limits ->> 'dayMilliCu')::bigint;
    RETURN jsonb_build_object('window', '24h', 'usedMilliCu', v_day, 'limitMilliCu', v_limit,
      'clearsAt', sluice.window_clears_at(p_scope, 'day', p_now, v_limit, v_open));
  END IF;
  SELECT coalesce(sluice.drawn_in(p_scope, sluice.period_of(p_now)), '{0,0,0}') INTO v_drawn;
  v_limit := greatest(0, (p_limits ->> 'purchasedMilliCu')::bigint
    - (sluice.drawn(p_scope, p_now))[2] + v_drawn[2]);
  v_limit := v_limit + (p_limits ->> 'includedMilliCu')::bigint + (p_limits ->> 'overageMilliCu')::bigint;
  RETURN jsonb_build_object('usedMilliCu', sluice.total(v_drawn) + v_open,
    'limitMilliCu', least(v_limit, ${Number.MAX_SAFE_INTEGER}), 'clearsAt', sluice.period_end(p_now));
END $$;
CREATE FUNCTION sluice.drawn_in(p_workspace text, p_period bigint) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY[sum(amounts[1]), sum(amounts[2]), sum(amounts[3])]::bigint[]
  FROM sluice.draws WHERE workspace_id = p_workspace AND period = p_period HAVING count(*) > 0;
$$;
`;

/** Functions for reports, and the sweep, which replicas call every 10 seconds. */
export const reportFunctions = `
-- What replicas hold of a scope and do not show as slack, which is about the sum of the open reservations.
CREATE FUNCTION sluice.reserved_in(p_scope text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(greatest(sluice.held(granted, spent) - sluice.total(slack), 0)), 0)::bigint
  FROM sluice.leases WHERE scope = p_scope;
$$;
CREATE FUNCTION sluice.key_usage(p_key text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('time', sluice.now_ms(), 'open', sluice.reserved_in(p_key), 'steps', (
    SELECT coalesce(jsonb_agg(jsonb_build_array(kind, step, milli_cu) ORDER BY step), '[]') FROM (
      SELECT kind, step, sum(milli_cu)::bigint AS milli_cu FROM sluice.key_steps
      WHERE key_id = p_key AND step >= CASE kind
        WHEN 'day' THEN sluice.now_ms() / ${dayWindow.stepMs} - ${dayWindow.steps}
        ELSE sluice.now_ms() / ${monthWindow.stepMs} - ${monthWindow.steps} END
      GROUP BY kind, step) AS each));
$$;
CREATE FUNCTION sluice.workspace_usage(p_workspace text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('period', period, 'open', sluice.reserved_in(p_workspace),
    'drawn', coalesce(sluice.drawn_in(p_workspace, period), '{0,0,0}'),
    'purchasedEver', (sluice.drawn(p_workspace, sluice.now_ms()))[2])
  FROM sluice.period_of(sluice.now_ms()) AS period;
$$;

-- For operators: ends the replicas with this name, or all if it is null. What they hold is free at once.
CREATE FUNCTION sluice.credit_end(p_name text) RETURNS TABLE (name text, held bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH ended AS (
      UPDATE sluice.replicas r SET state = 'fenced'
      WHERE r.state = 'live' AND (p_name IS NULL OR r.name = p_name)
      RETURNING r.id, r.name
    ), freed AS (
      DELETE FROM sluice.leases l USING ended e WHERE l.replica = e.id
      RETURNING l.replica, l.granted, l.spent
    )
    SELECT e.name, coalesce((SELECT sum(sluice.held(f.granted, f.spent)) FROM freed f
      WHERE f.replica = e.id AND cardinality(f.granted) = 3), 0)::bigint
    FROM ended e ORDER BY e.id;
END $$;

-- Steps that have left their window are deleted. Draws of replicas that have ended are added to those of replica 0, so
-- that the rows per workspace do not grow with every start. A grant sees all of it or nothing.
CREATE FUNCTION sluice.credit_sweep() RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE
  v_now bigint := sluice.now_ms();
BEGIN
  IF pg_try_advisory_xact_lock(7582148) THEN
    DELETE FROM sluice.key_steps WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM sluice.key_steps WHERE step < CASE kind
        WHEN 'day' THEN v_now / ${dayWindow.stepMs} - ${dayWindow.steps}
        ELSE v_now / ${monthWindow.stepMs} - ${monthWindow.steps} END
      LIMIT 10000));
    WITH ended AS (
      DELETE FROM sluice.draws d USING sluice.replicas r
      WHERE r.id = d.replica AND r.state IN ('fenced', 'gone') RETURNING d.*
    )
    INSERT INTO sluice.draws AS known
      SELECT workspace_id, period, 0,
        ARRAY[sum(amounts[1]), sum(amounts[2]), sum(amounts[3])]::bigint[]
      FROM ended GROUP BY 1, 2
      ON CONFLICT (workspace_id, period, replica)
        DO UPDATE SET amounts = sluice.plus(known.amounts, excluded.amounts);
  END IF;
  RETURN (SELECT jsonb_build_object(
      'live', count(*) FILTER (WHERE v_now - heard_at <= 2000),
      'silent', count(*) FILTER (WHERE v_now - heard_at > 2000),
      'running', count(*),
      'stranded', coalesce(sum((SELECT sum(sluice.held(granted, spent)) FROM sluice.leases
        WHERE replica = id AND v_now - heard_at > 2000 AND cardinality(granted) = 3)), 0)::bigint)
    FROM sluice.replicas WHERE state = 'live');
END $$;
`;
