/** The tables that `sluice store migrate` copies from accounts.db. */
import type { EmbeddedDatabase } from "sluice-gateway/postgres";
import { openAccountsDatabase } from "../embedded/schema.ts";

export const accountsDatabase: EmbeddedDatabase = {
  file: "accounts.db",
  open: openAccountsDatabase,
  tables: [
    {
      name: "workspaces",
      columns: {
        id: "text",
        name: "text",
        plan: "text",
        pending_plan: "text",
        pending_plan_at: "bigint",
        purchased_total_cu_milli: "bigint",
        overage_limit_cu_milli: "bigint",
        created_at: "bigint",
      },
      key: ["id"],
    },
    {
      name: "keys",
      columns: {
        id: "text",
        workspace_id: "text",
        name: "text",
        hash: "text",
        environment: "text",
        capabilities: "text",
        rps_limit: "double precision",
        cu_limit_24h_milli: "bigint",
        cu_limit_30d_milli: "bigint",
        allowed_addresses: "text",
        created_at: "bigint",
        expires_at: "bigint",
        revoked_at: "bigint",
        rotated_to: "text",
      },
      key: ["id"],
    },
    { name: "key_use", columns: { key_id: "text", last_used_at: "bigint" }, key: ["key_id"] },
    {
      name: "purchases",
      columns: {
        id: "text",
        workspace_id: "text",
        amount_cu_milli: "bigint",
        bought_at: "bigint",
      },
      key: ["id"],
    },
    {
      name: "model_overrides",
      columns: {
        network: "text",
        place: "int",
        id: "text",
        enabled: "int",
        owned_by: "text",
        price_coefficient: "bigint",
      },
      key: ["network", "id"],
    },
    {
      name: "changes",
      columns: {
        id: "bigint",
        at: "bigint",
        actor: "text",
        action: "text",
        workspace_id: "text",
        key_id: "text",
        details: "json",
        request_id: "text",
      },
      key: ["id"],
      numberedBy: "id",
    },
    {
      name: "idempotency_slots",
      columns: {
        api_key_id: "text",
        key: "text",
        fingerprint: "text",
        owner: "text",
        until: "bigint",
        status: "int",
        content_type: "text",
        content_encoding: "text",
        body: "bytea",
      },
      key: ["api_key_id", "key"],
    },
  ],
};
