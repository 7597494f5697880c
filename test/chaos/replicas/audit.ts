/** Triggers that record what replicas hold, and check at every commit that each scope is within its limit. */
import { Client } from "pg";
import { runSql } from "../../store/servers.ts";
import type { Charge, Exceeded, Holding, KeptSum, LimitedScope } from "../../checker/history.ts";

/**
 * The trigger is deferred, so that it sees the whole transaction. Its statement has a separate snapshot, in which a
 * post has moved an amount completely or not at all. Purchases raise the limit of a workspace.
 */
const audit = `
CREATE SCHEMA audit;
CREATE FUNCTION audit.held(granted bigint, spent bigint) RETURNS bigint LANGUAGE sql AS $$
  SELECT greatest(granted - spent, 0);
$$;
CREATE TABLE audit.limits (scope text PRIMARY KEY, kind text NOT NULL, milli bigint NOT NULL);
CREATE TABLE audit.holdings (at bigint, scope text, replica bigint, held bigint);
CREATE TABLE audit.states (at bigint, replica bigint, state text);
CREATE TABLE audit.exceeded (scope text, charged bigint, held bigint, capacity bigint);

CREATE FUNCTION audit.note_holding() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    INSERT INTO audit.holdings VALUES (sluice.now_ms(), OLD.scope, OLD.replica, 0);
  ELSIF TG_OP = 'INSERT' OR audit.held(OLD.granted, OLD.spent) <> audit.held(NEW.granted, NEW.spent) THEN
    INSERT INTO audit.holdings
      VALUES (sluice.now_ms(), NEW.scope, NEW.replica, audit.held(NEW.granted, NEW.spent));
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON sluice.leases
  FOR EACH ROW EXECUTE FUNCTION audit.note_holding();

CREATE FUNCTION audit.note_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit.states VALUES (sluice.now_ms(), NEW.id, NEW.state);
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE OF state ON sluice.replicas
  FOR EACH ROW EXECUTE FUNCTION audit.note_state();

CREATE FUNCTION audit.check_scope() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit.exceeded
    SELECT * FROM (
      SELECT scope,
        (SELECT coalesce(sum(milli_cu), 0) FROM sluice.used u WHERE u.scope = l.scope
          AND u.kind = CASE l.kind WHEN 'key' THEN 'day' ELSE 'period' END) AS charged,
        (SELECT coalesce(sum(audit.held(granted, spent)), 0) FROM sluice.leases s WHERE s.scope = l.scope) AS held,
        milli + (SELECT coalesce(sum((details ->> 'amountCuMilli')::bigint), 0) FROM sluice.changes
          WHERE action = 'workspace.purchase' AND workspace_id = l.scope) AS capacity
      FROM audit.limits l WHERE scope = NEW.scope) AS now
    WHERE charged + held > capacity;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER check_scope AFTER INSERT OR UPDATE ON sluice.leases
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION audit.check_scope();
`;

export async function startAudit(url: string, scopes: readonly LimitedScope[]): Promise<void> {
  await runSql(url, audit);
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query(
    "INSERT INTO audit.limits SELECT * FROM json_to_recordset($1) AS l (id text, kind text, milli bigint)",
    [JSON.stringify(scopes.map(({ id, kind, limitMilliCu: milli }) => ({ id, kind, milli })))],
  );
  await client.end();
}

interface StateChange {
  readonly at: number;
  readonly replica: string;
  readonly state: string;
}

export interface Audit {
  readonly charges: readonly Charge[];
  readonly holdings: readonly Holding[];
  readonly states: readonly StateChange[];
  readonly exceeded: readonly Exceeded[];
  readonly sums: readonly KeptSum[];
  /** Number of purchases by amount, and their sum by workspace. */
  readonly purchases: ReadonlyMap<number, number>;
  readonly purchased: ReadonlyMap<string, number>;
}

export async function readAudit(url: string): Promise<Audit> {
  // The statements name the columns of these shapes.
  const read = async <T>(statement: string): Promise<readonly T[]> => {
    const text = `SELECT coalesce(json_agg(each), '[]')::text AS rows FROM (${statement}) AS each`;
    const [row] = await runSql(url, text);
    return JSON.parse(String(row?.["rows"])) as T[];
  };
  const purchases = await read<{ workspace: string; amount: number }>(
    `SELECT workspace_id AS workspace, (details ->> 'amountCuMilli')::bigint AS amount
     FROM sluice.changes WHERE action = 'workspace.purchase'`,
  );
  const counts = new Map<number, number>();
  const purchased = new Map<string, number>();
  for (const { workspace, amount } of purchases) {
    counts.set(amount, (counts.get(amount) ?? 0) + 1);
    purchased.set(workspace, (purchased.get(workspace) ?? 0) + amount);
  }
  return {
    purchases: counts,
    purchased,
    charges: await read(`SELECT request_id AS "requestId", key_id AS "keyId",
      workspace_id AS "workspaceId", used_cu_milli AS "milliCu" FROM sluice.usage`),
    holdings: await read(`SELECT at, scope, name AS replica, held AS "heldMilliCu"
      FROM audit.holdings h JOIN sluice.replicas r ON r.id = h.replica ORDER BY at`),
    states: await read(`SELECT at, name AS replica, s.state
      FROM audit.states s JOIN sluice.replicas r ON r.id = s.replica ORDER BY at`),
    exceeded: await read(`SELECT scope, charged AS "chargedMilliCu", held AS "heldMilliCu",
      capacity AS "limitMilliCu" FROM audit.exceeded`),
    sums: await read<KeptSum>(`SELECT 'used, ' || kind AS of, scope AS id,
      sum(milli_cu)::bigint AS "milliCu" FROM sluice.used GROUP BY kind, scope`),
  };
}
