/** Times are in milliseconds since 1970, amounts in milli-CU. Only the SHA-256 of a key's text is stored, in hex. */
import type { Tables } from "sluice-gateway/internal/store";

/**
 * Number of the lock that numbers keys and changes in the order of commits. It is arbitrary, but the same in all
 * releases, and the same for both tables, so that two transactions cannot wait for each other.
 */
const changesLock = 7_582_146;

/**
 * `key_use` is separate from `keys` because it is written often and in bulk, and a use does not change the key.
 * `details` of a change never contains a secret, and `workspace_id` of a change of the deployment is empty.
 *
 * While a request with an idempotency key is in flight, `owner` of its slot is set and `until` is the end of its lease.
 * After that, `status` is set and `until` is the end of the replays.
 */
const accounts: Tables["scripts"][number] = {
  name: "accounts",
  sql({ numbered, appendOnly }) {
    const no = numbered("keys", "no", changesLock);
    const id = numbered("changes", "id", changesLock);
    return `
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
  ${no.column},
  id text NOT NULL UNIQUE,
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
${no.after}
CREATE TABLE sluice.key_use (
  key_id text PRIMARY KEY REFERENCES sluice.keys (id),
  last_used_at bigint NOT NULL
);
CREATE TABLE sluice.model_overrides (
  network text NOT NULL,
  place int NOT NULL,
  id text NOT NULL,
  enabled int NOT NULL CHECK (enabled IN (0, 1)),
  owned_by text,
  price_coefficient bigint CHECK (price_coefficient >= 0),
  PRIMARY KEY (network, id)
);
CREATE TABLE sluice.changes (
  ${id.column},
  at bigint NOT NULL,
  actor text NOT NULL,
  action text NOT NULL,
  workspace_id text NOT NULL,
  key_id text,
  details json NOT NULL,
  request_id text
);
CREATE INDEX changes_of_workspace ON sluice.changes (workspace_id, id);
${id.after}
${appendOnly("changes")}
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
`;
  },
};

const workspaceColumns =
  "id, name, plan, pending_plan, pending_plan_at, purchased_total_cu_milli, overage_limit_cu_milli, created_at";
export const workspaceColumnNames = workspaceColumns.split(", ");

/** Tables with rows that outlive a move to another store. A row refers only to rows of the same or earlier tables. */
const moved: Tables["moved"] = [
  { name: "workspaces", columns: workspaceColumns, key: ["id"] },
  {
    name: "keys",
    columns:
      "id, workspace_id, name, hash, environment, capabilities, rps_limit, cu_limit_24h_milli, cu_limit_30d_milli, allowed_addresses, created_at, expires_at, revoked_at, rotated_to",
    key: ["id"],
  },
  { name: "key_use", columns: "key_id, last_used_at", key: ["key_id"] },
  {
    name: "model_overrides",
    columns: "network, place, id, enabled, owned_by, price_coefficient, prices",
    key: ["network", "id"],
  },
  {
    name: "changes",
    columns: "id, at, actor, action, workspace_id, key_id, details, request_id",
    json: "details",
    key: ["id"],
    numberedBy: "id",
  },
  {
    name: "idempotency_slots",
    columns:
      "api_key_id, key, fingerprint, owner, until, status, content_type, content_encoding, body",
    key: ["api_key_id", "key"],
  },
];

/**
 * Copies the rows in their order, which is that of the keys' numbers. The log refuses rows that exist. The earlier file
 * has no `prices`.
 */
function copyOf({ name, columns }: Tables["moved"][number]): string {
  const names = columns.replace(", prices", "");
  const condition = name === "changes" ? "id NOT IN (SELECT id FROM changes)" : "true";
  return `INSERT INTO ${name} (${names}) SELECT ${names} FROM old.${name} WHERE ${condition} ON CONFLICT DO NOTHING;`;
}

export const accountTables: Tables = {
  scripts: [
    accounts,
    { name: "prices of models", sql: "ALTER TABLE sluice.model_overrides ADD COLUMN prices text" },
    // The marks of the gateways replace it.
    {
      name: "no followers",
      sql: "DROP TABLE IF EXISTS sluice.followers",
      excludesOlder: true,
    },
    // The log of changes has the purchases.
    {
      name: "no purchases",
      sql: "DROP TABLE IF EXISTS sluice.purchases",
      excludesOlder: true,
    },
  ],
  takeovers: [{ file: "accounts.db", version: 4, sql: moved.map(copyOf).join("\n") }],
  moved,
};
