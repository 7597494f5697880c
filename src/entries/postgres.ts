/**
 * PostgreSQL databases, exported as `sluice-gateway/internal/postgres`: connections and errors. It loads the driver, so
 * import it only where `host.store.postgres` is defined.
 */
export { commitOrder } from "../store/postgres/commit-order.ts";
export { explainPostgres, postgresError, PostgresFailure } from "../store/postgres/failure.ts";
export {
  checkSchema,
  schemaVersion,
  upgradeSchema,
  type Migration,
} from "../store/postgres/migrations.ts";
export { moveStore, type EmbeddedDatabase } from "../store/postgres/move-store.ts";
export { openPostgres, type PostgresPool } from "../store/postgres/postgres.ts";
export { createSeal } from "../store/seal.ts";
