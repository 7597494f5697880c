/**
 * Tables of the accounts in PostgreSQL, in the schema `sluice`. Times are in milliseconds since 1970, amounts in milli-CU.
 * The columns are those of the embedded database.
 */
import { commitOrder, type Migration } from "sluice-gateway/postgres";

/**
 * `no` of a key is the order in which keys were created. `key_use` is separate from `keys` because it is written often
 * and in bulk, and a use does not change the key.
 */
const tables = `
CREATE TABLE sluice.workspaces (
  id text PRIMARY KEY,
  name text NOT NULL,
  plan text NOT NULL,
  pending_plan text,
  pending_plan_at bigint,
  purchased_total_cu_milli bigint NOT NULL DEFAULT 0 CHECK (purchased_total_cu_milli >= 0),
  overage_limit_cu_milli bigint CHECK (overage_limit_cu_milli >= 0),
  created_at bigint NOT NULL,
  CHECK ((pending_plan IS NULL) = (pending_plan_at IS NULL))
);
CREATE TABLE sluice.keys (
  no bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  id text PRIMARY KEY,
  workspace_id text NOT NULL REFERENCES sluice.workspaces (id),
  name text NOT NULL,
  hash text NOT NULL UNIQUE CHECK (length(hash) = 64),
  environment text NOT NULL,
  capabilities text NOT NULL,
  rps_limit double precision CHECK (rps_limit > 0),
  cu_limit_24h_milli bigint CHECK (cu_limit_24h_milli >= 0),
  cu_limit_30d_milli bigint CHECK (cu_limit_30d_milli >= 0),
  allowed_addresses text,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint,
  rotated_to text REFERENCES sluice.keys (id) DEFERRABLE
);
CREATE INDEX keys_of_workspace ON sluice.keys (workspace_id);
CREATE TABLE sluice.key_use (
  key_id text PRIMARY KEY REFERENCES sluice.keys (id),
  last_used_at bigint NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE sluice.purchases (
  id text PRIMARY KEY,
  workspace_id text NOT NULL REFERENCES sluice.workspaces (id),
  amount_cu_milli bigint NOT NULL CHECK (amount_cu_milli > 0),
  bought_at bigint NOT NULL
);
CREATE INDEX purchases_of_workspace ON sluice.purchases (workspace_id);
CREATE TABLE sluice.model_overrides (
  network text NOT NULL,
  place int NOT NULL,
  id text NOT NULL,
  enabled int NOT NULL CHECK (enabled IN (0, 1)),
  owned_by text,
  price_coefficient bigint CHECK (price_coefficient >= 0),
  PRIMARY KEY (network, id)
);
`;

/** One row per running replica. `seen_change`: the last change that it has applied. */
const followers = `
CREATE TABLE sluice.followers (
  id text PRIMARY KEY,
  name text NOT NULL,
  seen_change bigint NOT NULL,
  heard_at bigint NOT NULL
) WITH (fillfactor = 70);
`;

/**
 * Number of the advisory lock that a transaction takes before it changes accounts. It is arbitrary, but the same in
 * all releases.
 */
export const changesLock = 7_582_146;

/** `workspace_id` of a change of the deployment is empty. */
const changes = `
CREATE TABLE sluice.changes (
  id bigint PRIMARY KEY,
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  workspace_id text NOT NULL,
  key_id text,
  details json NOT NULL,
  request_id text
);
CREATE INDEX changes_of_workspace ON sluice.changes (workspace_id, id);
${commitOrder("changes", "id", changesLock)}
CREATE FUNCTION sluice.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the change log is append-only';
END $$;
CREATE TRIGGER changes_are_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON sluice.changes
  FOR EACH STATEMENT EXECUTE FUNCTION sluice.refuse_change();
`;

/**
 * While a request is in flight, `owner` is set and `until` is the end of its lease. After that, `status` is set and
 * `until` is the end of the replays.
 *
 * `find_slot` returns the slot of a request that must not run, or `is_locked` if another transaction is about to take
 * it. If it returns no row, the request may run, and no other transaction can take the slot before this one ends. The
 * function never waits.
 */
const slots = `
CREATE TABLE sluice.idempotency_slots (
  api_key_id text NOT NULL,
  key text NOT NULL,
  fingerprint text NOT NULL CHECK (length(fingerprint) = 64),
  owner text UNIQUE,
  until bigint NOT NULL,
  status int,
  content_type text,
  content_encoding text,
  body bytea,
  PRIMARY KEY (api_key_id, key),
  CHECK ((owner IS NULL) = (status IS NOT NULL)),
  CHECK ((status IS NULL) = (body IS NULL))
);
CREATE INDEX idempotency_slots_until ON sluice.idempotency_slots (until);

CREATE FUNCTION sluice.find_slot(p_api_key_id text, p_key text)
RETURNS TABLE (
  is_locked boolean, fingerprint text, status int, content_type text, content_encoding text, body bytea)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  FOR attempt IN 1 .. 2 LOOP
    RETURN QUERY SELECT false, fingerprint, status, content_type, content_encoding, body
      FROM sluice.idempotency_slots
      WHERE api_key_id = p_api_key_id AND key = p_key AND until > sluice.now_ms();
    IF FOUND OR attempt = 2 THEN RETURN; END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(p_api_key_id || ' ' || p_key, 0)) THEN
      RETURN QUERY SELECT true, NULL::text, NULL::int, NULL::text, NULL::text, NULL::bytea;
      RETURN;
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION sluice.take_slot(
  p_api_key_id text, p_key text, p_fingerprint text, p_owner text, p_lease_ms bigint)
RETURNS TABLE (
  is_locked boolean, fingerprint text, status int, content_type text, content_encoding text, body bytea)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT * FROM sluice.find_slot(p_api_key_id, p_key);
  IF FOUND THEN RETURN; END IF;
  DELETE FROM sluice.idempotency_slots s WHERE s.api_key_id = p_api_key_id AND s.key = p_key;
  INSERT INTO sluice.idempotency_slots (api_key_id, key, fingerprint, owner, until)
    VALUES (p_api_key_id, p_key, p_fingerprint, p_owner, sluice.now_ms() + p_lease_ms);
END $$;
`;

/** The scripts of the accounts, for `upgradeSchema`. */
export const accountMigrations: readonly Migration[] = [
  { name: "accounts", sql: [tables, followers, changes, slots].join("\n") },
];
