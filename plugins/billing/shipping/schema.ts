/** Tables and functions of the copy of the charges in PostgreSQL. Functions are the only way in which gateways write. */
import type { Migration } from "sluice-gateway/postgres";
import { exportMigrations } from "../metering/export/schema.ts";
import { ledgerFunctions } from "../leases/schema.ts";
import { registerLock, tables } from "../leases/schema-tables.ts";

/**
 * Makes this start the one that may post for its journal. The outcome is `registered`, or `in_use` with the name of
 * another live replica, of any kind: this gateway reserves its credit in its own folder, so it shares no budget.
 */
const register = `
CREATE FUNCTION sluice.register(p_journal text, p_name text, p_version text)
RETURNS TABLE (outcome text, id bigint, starts bigint, posted bigint, other text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  v_now bigint := sluice.now_ms();
  v_other text;
BEGIN
  PERFORM pg_advisory_xact_lock(${registerLock});
  PERFORM sluice.end_silent(v_now);
  SELECT name INTO v_other FROM sluice.replicas
    WHERE state = 'live' AND journal <> p_journal LIMIT 1;
  IF FOUND THEN
    RETURN QUERY SELECT 'in_use', NULL::bigint, NULL::bigint, NULL::bigint, v_other;
    RETURN;
  END IF;
  RETURN QUERY
    INSERT INTO sluice.replicas AS r (journal, name, version, mode, state, registered_at, heard_at)
    VALUES (p_journal, p_name, p_version, 'local', 'live', v_now, v_now)
    ON CONFLICT (journal) DO UPDATE SET name = excluded.name, version = excluded.version,
      state = 'live', starts = r.starts + 1, heard_at = excluded.heard_at
    RETURNING 'registered', r.id, r.starts, r.posted, NULL;
END $$;
`;

/**
 * Adds the charges of the commits from `p_first` to `p_last`, if the commit before `p_first` is the last one that was
 * posted. This comparison makes every charge count exactly once, however often a batch is sent. Outcomes: `posted`;
 * `moved`, if another commit was posted last; `replaced`, if a newer start has registered; `silent`, if this replica
 * counts as ended. No row: the replica is unknown.
 */
const post = `
CREATE FUNCTION sluice.post(
  p_replica bigint, p_start bigint, p_first bigint, p_last bigint, p_check bytea, p_rows json)
RETURNS TABLE (outcome text, posted bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
#variable_conflict use_column
BEGIN
  UPDATE sluice.replicas
    SET posted = p_last, posted_check = coalesce(p_check, posted_check), heard_at = sluice.now_ms()
    WHERE id = p_replica AND starts = p_start AND state = 'live' AND posted = p_first - 1;
  IF NOT FOUND THEN
    RETURN QUERY SELECT
      CASE WHEN starts <> p_start THEN 'replaced' WHEN state <> 'live' THEN 'silent' ELSE 'moved' END,
      posted
      FROM sluice.replicas WHERE id = p_replica;
    RETURN;
  END IF;
  -- They also count in the windows and draws, so that gateways that share the credit may follow this one.
  PERFORM sluice.record_charges(p_replica, p_rows, NULL);
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

/** The scripts of the charges and of the credit that gateways share, for `upgradeSchema`. */
export const chargeMigrations: readonly Migration[] = [
  { name: "charges", sql: [tables, ledgerFunctions, register, post, leave].join("\n") },
  ...exportMigrations,
];
