/** The sums of charges by hour in PostgreSQL. */
import { monthWindow } from "../metering/windows.ts";

/**
 * `hours` has the sums of the charges that a replica has made in an hour (hours since 1970) with the same names. An empty
 * text is a missing name. `names` is a digest of the names, because some are too long for an index.
 */
const tables = `
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

/**
 * Returns a statement that adds charges to the hours. `charges`: a relation with the columns of the charges.
 * `replica`: the number of the replica that has made them.
 */
export const addToHours = (charges: string, replica: string): string => `
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
export const hours: string = `${tables}${addToHours("sluice.charges", "replica")};`;
