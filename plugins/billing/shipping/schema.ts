/** Tables and functions of charges in PostgreSQL. Gateways write only by calling these functions. */
import type { Migration } from "sluice-gateway/postgres";
import { exportMigrations } from "../metering/export/schema.ts";
import { hourMigrations } from "../leases/schema-hours.ts";
import { ledgerFunctions, post } from "../leases/schema.ts";
import { recordCharges, tables } from "../leases/schema-tables.ts";

/**
 * The type of the amounts that replicas send, and the functions that use it. Databases of earlier releases have these
 * functions without it.
 */
const amountType = `
CREATE DOMAIN sluice.amount AS bigint CHECK (VALUE >= 0);
${[post, recordCharges].join("\n").replaceAll("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")}`;

/** The scripts of the charges and of the credit that gateways share, for `upgradeSchema`. */
export const chargeMigrations: readonly Migration[] = [
  { name: "charges", sql: [tables, ledgerFunctions].join("\n") },
  { name: "charge-amounts", sql: amountType },
  ...exportMigrations,
  ...hourMigrations,
];
