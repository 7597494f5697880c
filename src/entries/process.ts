/**
 * Parts of the process for commands that read pipeline.yaml or run a server of their own, exported as
 * `sluice-gateway/internal/process`. It loads most of the gateway, so only commands import it.
 */
export {
  checkTables,
  openCommandDatabase,
  openCommandStore,
  withDatabase,
  type CommandDatabase,
} from "../commands/database.ts";
export { catchFatalErrors } from "../commands/fatal-errors.ts";
export { drainOf, runUntilStopped, startOrPrintFaults } from "../commands/start.ts";
export { limitHeapGrowth } from "../commands/server-process.ts";
export type { Config } from "../config/config.ts";
export { printFault, type Fault } from "../config/fault.ts";
export { storeFault } from "../config/store-faults.ts";
export { createLog, standardStream } from "../base/log.ts";
export { createMetrics } from "../base/metrics.ts";
export { readPipeline } from "../pipeline/load/check-file.ts";
export { movedDatabases, shippedMigrations } from "../pipeline/load/migrations.ts";
export { startAlone } from "../pipeline/load/start-alone.ts";
