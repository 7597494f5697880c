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
      RETURN jsonb_build_object('window', '30d', 'usedMilliCu', v_month, 'limitMilliCu', v_limit);
    END IF;
    RETURN jsonb_build_object('window', '24h', 'usedMilliCu', v_day,
      'limitMilliCu', (p_limits ->> 'dayMilliCu')::bigint);
  END IF;
  SELECT coalesce(sluice.drawn_in(p_scope, sluice.period_of(p_now)), '{0,0,0}') INTO v_drawn;
  v_limit := greatest(0, (p_limits ->> 'purchasedMilliCu')::bigint
    - (sluice.drawn(p_scope, p_now))[2] + v_drawn[2]);
  v_limit := v_limit + (p_limits ->> 'includedMilliCu')::bigint + (p_limits ->> 'overageMilliCu')::bigint;
  RETURN jsonb_build_object('usedMilliCu', sluice.total(v_drawn) + v_open,
    'limitMilliCu', least(v_limit, ${Number.MAX_SAFE_INTEGER}));
END $$;
CREATE FUNCTION sluice.drawn_in(p_workspace text, p_period bigint) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY[sum(amounts[1]), sum(amounts[2]), sum(amounts[3])]::bigint[]
  FROM sluice.draws WHERE workspace_id = p_workspace AND period = p_period HAVING count(*) > 0;
$$;
`;
