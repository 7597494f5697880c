/** Tables and functions of charges in PostgreSQL. Gateways write only by calling these functions. */
import type { Migration } from "sluice-gateway/postgres";
import { exportMigrations } from "../metering/export/schema.ts";
import { spendMigrations } from "../leases/schema-spend.ts";
import { ledgerFunctions } from "../leases/schema.ts";
import { tables } from "../leases/schema-tables.ts";

/** The scripts of the charges and of the credit that gateways share, for `upgradeSchema`. */
export const chargeMigrations: readonly Migration[] = [
  { name: "charges", sql: [tables, ledgerFunctions].join("\n") },
  ...exportMigrations,
  ...spendMigrations,
];
